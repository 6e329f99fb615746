//! Networks: functions from rows of features to rows of numbers. A network is forward code over a [`Scope`]; its
//! weights are named, trained and saved like every other parameter.

use crate::any::{Own, any};
use crate::error::{Error, Result};
use crate::limits::{self, within};
use crate::scope::{Initial, Scope};
use mcvi_expr::{Array, Expr};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt::Debug;
use std::sync::Arc;

/// A function from blocks of features, each `[rows, k]` with a name, to `[rows, outputs]`.
///
/// ```
/// use mcvi::network::{Network, dense};
/// use mcvi::Scope;
/// use mcvi_expr::Expr;
///
/// /// Two layers, the second with a path around it.
/// #[derive(Debug)]
/// struct Residual(usize);
///
/// impl Network for Residual {
///     fn apply<'g>(&self, scope: &Scope<'g>, inputs: &[(&str, Expr<'g>)], outputs: usize, gain: f64) -> Expr<'g> {
///         let h = dense(&scope.child("first"), inputs, self.0, 1.0).softplus();
///         let h = h + dense(&scope.child("second"), &[("h", h)], self.0, 1.0).softplus();
///         dense(&scope.child("output"), &[("h", h)], outputs, gain)
///     }
/// }
/// ```
pub trait Network: Debug + Send + Sync {
    /// Evaluate it. The last layer is linear, and its initial weights are `gain` times their usual size.
    fn apply<'g>(&self, scope: &Scope<'g>, inputs: &[(&str, Expr<'g>)], outputs: usize, gain: f64) -> Expr<'g>;

    /// The weights between its hidden layers: fewer than it has in all. An error if it is beyond the
    /// [`limits`].
    fn size(&self) -> Result<usize> {
        Ok(0)
    }

    /// The identity of a custom network in a saved chain. The default is the name of its type; override this if its
    /// settings matter too.
    fn identity(&self) -> Value {
        std::any::type_name::<Self>().into()
    }

    /// As part of a density.
    fn into_any(self) -> AnyNetwork
    where
        Self: Sized + 'static,
    {
        AnyNetwork::Own(Own::new(self.identity(), Arc::new(self)))
    }
}

any! {
    /// Any network, as data if it is built in.
    AnyNetwork is Network: Dense, ConvEncoder, ConvDecoder
}

impl Network for AnyNetwork {
    fn apply<'g>(&self, scope: &Scope<'g>, inputs: &[(&str, Expr<'g>)], outputs: usize, gain: f64) -> Expr<'g> {
        match self.get() {
            Ok(network) => network.apply(scope, inputs, outputs, gain),
            Err(error) => {
                scope.fail(error);
                dense(scope, inputs, outputs, gain)
            }
        }
    }

    fn size(&self) -> Result<usize> {
        self.get().map_or(Ok(0), Network::size)
    }

    fn into_any(self) -> AnyNetwork {
        self
    }
}

/// Layers of softplus units, then a linear layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dense {
    /// Width of each hidden layer.
    pub hidden: Vec<usize>,
}

impl Network for Dense {
    fn apply<'g>(&self, scope: &Scope<'g>, inputs: &[(&str, Expr<'g>)], outputs: usize, gain: f64) -> Expr<'g> {
        let mut layer = inputs.to_vec();
        for (i, &width) in self.hidden.iter().enumerate() {
            let at = scope.child(&format!("layer{}", i + 1));
            layer = vec![("hidden", dense(&at, &layer, width, 1.0).softplus())];
        }
        dense(&scope.child("output"), &layer, outputs, gain)
    }

    fn size(&self) -> Result<usize> {
        within("layers", self.hidden.len(), 0..=limits::LAYERS)?;
        self.hidden.iter().try_for_each(|width| within("hidden units", *width, 1..=limits::HIDDEN))?;
        weights(self.hidden.windows(2).map(|w| w[0] * w[1]).sum())
    }

    fn into_any(self) -> AnyNetwork {
        self.into()
    }
}

/// Size of the filters of every convolution.
pub(crate) const FILTER: usize = 5;
/// Gain of the initial weights of hidden layers in convolutional networks: softplus halves the differences between
/// rows, and through five layers nothing would be left of them. (Two layers keep enough.)
const DEEP: f64 = 1.7;

/// From an image to numbers: convolutions that each halve it, then a hidden layer with the other features, then a
/// linear layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConvEncoder {
    /// Height and width of the image, which is the block named `x`.
    pub image: [usize; 2],
    /// Number of feature maps of each convolution.
    pub maps: Vec<usize>,
    /// Width of the hidden layer.
    pub hidden: usize,
}

/// From numbers to an image: the [`ConvEncoder`] mirrored, with upsampling in place of strides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConvDecoder {
    /// Height and width of the image.
    pub image: [usize; 2],
    /// Number of feature maps of the convolutions of the encoder it mirrors.
    pub maps: Vec<usize>,
    /// Width of the hidden layer.
    pub hidden: usize,
}

/// The size of the image before the first and after each halving.
fn halvings(image: [usize; 2], times: usize) -> Vec<[usize; 2]> {
    std::iter::successors(Some(image), |[h, w]| Some([h.div_ceil(2), w.div_ceil(2)])).take(times + 1).collect()
}

impl Network for ConvEncoder {
    fn apply<'g>(&self, scope: &Scope<'g>, inputs: &[(&str, Expr<'g>)], outputs: usize, gain: f64) -> Expr<'g> {
        let Some((_, x)) = inputs.iter().find(|(name, _)| *name == "x") else {
            let why = "a convolutional network needs the observations among its inputs".to_owned();
            scope.fail(Error::Setting { what: "network", why });
            return dense(scope, inputs, outputs, gain);
        };
        let [h, w] = self.image;
        let rows = x.shape().dims().first().copied().unwrap_or(1);
        let mut image = x.reshape([rows, 1, h, w]);
        for (i, &maps) in self.maps.iter().enumerate() {
            image = conv(&scope.child(&format!("conv{}", i + 1)), image, maps, FILTER, 2, DEEP).softplus();
        }
        let [h, w] = halvings(self.image, self.maps.len())[self.maps.len()];
        let flat = image.reshape([rows, self.maps.last().copied().unwrap_or(1) * h * w]);
        let rest = inputs.iter().filter(|(name, _)| *name != "x").copied();
        let features: Vec<(&str, Expr<'g>)> = std::iter::once(("maps", flat)).chain(rest).collect();
        let hidden = dense(&scope.child("layer1"), &features, self.hidden, DEEP).softplus();
        dense(&scope.child("output"), &[("hidden", hidden)], outputs, gain)
    }

    fn size(&self) -> Result<usize> {
        conv_size(self.image, &self.maps, self.hidden)
    }

    fn into_any(self) -> AnyNetwork {
        self.into()
    }
}

impl Network for ConvDecoder {
    fn apply<'g>(&self, scope: &Scope<'g>, inputs: &[(&str, Expr<'g>)], outputs: usize, gain: f64) -> Expr<'g> {
        let sizes = halvings(self.image, self.maps.len());
        let ([h, w], deepest) = (sizes[self.maps.len()], self.maps.last().copied().unwrap_or(1));
        let hidden = dense(&scope.child("layer1"), inputs, self.hidden, DEEP).softplus();
        let flat = dense(&scope.child("layer2"), &[("hidden", hidden)], deepest * h * w, DEEP);
        let flat = if self.maps.is_empty() { flat } else { flat.softplus() };
        let rows = flat.shape().dims().first().copied().unwrap_or(1);
        let mut image = flat.reshape([rows, deepest, h, w]);
        for i in (0..self.maps.len()).rev() {
            let at = scope.child(&format!("conv{}", self.maps.len() - i));
            image = match i.checked_sub(1) {
                Some(next) => upsampled_conv(&at, image, sizes[i], self.maps[next], FILTER, DEEP, Expr::softplus),
                None => upsampled_conv(&at, image, sizes[i], 1, FILTER, gain, |x| x),
            };
        }
        image.reshape([rows, outputs])
    }

    fn size(&self) -> Result<usize> {
        conv_size(self.image, &self.maps, self.hidden)
    }

    fn into_any(self) -> AnyNetwork {
        self.into()
    }
}

/// The weights of a convolutional network between its hidden layer and the feature maps.
fn conv_size(image: [usize; 2], maps: &[usize], hidden: usize) -> Result<usize> {
    within("image", image[0].saturating_mul(image[1]), 1..=limits::PIXELS)?;
    within("layers", maps.len(), 0..=limits::LAYERS)?;
    maps.iter().try_for_each(|maps| within("feature maps", *maps, 1..=limits::HIDDEN))?;
    within("hidden units", hidden, 1..=limits::HIDDEN)?;
    let [h, w] = halvings(image, maps.len())[maps.len()];
    let filters: usize = maps.windows(2).map(|m| m[0] * m[1] * FILTER * FILTER).sum();
    weights(maps.last().map_or(1, |m| *m).saturating_mul(h * w).saturating_mul(hidden).saturating_add(filters))
}

/// A number of weights, if it is within the limits.
pub(crate) fn weights(count: usize) -> Result<usize> {
    within("weights of a network", count, 0..=limits::WEIGHTS).map(|()| count)
}

/// A linear layer over several blocks of inputs, initialised so that its outputs have a variance of about `gain`
/// squared.
pub fn dense<'g>(scope: &Scope<'g>, inputs: &[(&str, Expr<'g>)], width: usize, gain: f64) -> Expr<'g> {
    let columns = |x: &Expr<'g>| x.shape().dims().get(1).copied().unwrap_or(1);
    let total: usize = inputs.iter().map(|(_, x)| columns(x)).sum();
    let mut sum = scope.param("bias", width, || Initial::new(vec![0.0; width]));
    for (name, x) in inputs {
        let shape = [columns(x), width];
        let weights = scope.param(name, shape, || scope.weights(name, shape[0] * width, total, gain));
        sum = x.matmul(weights) + sum;
    }
    sum
}

/// A convolution of images `[rows, channels, h, w]` to this many feature maps. Their size is that of the image divided
/// by the stride, rounded up.
pub fn conv<'g>(scope: &Scope<'g>, x: Expr<'g>, maps: usize, filter: usize, stride: usize, gain: f64) -> Expr<'g> {
    let (filters, bias) = filters(scope, x, maps, filter, gain);
    let around = filter / 2;
    x.conv2d(filters, stride, (around, filter - 1 - around)) + bias
}

/// The weights of a convolution.
fn filters<'g>(scope: &Scope<'g>, x: Expr<'g>, maps: usize, filter: usize, gain: f64) -> (Expr<'g>, Expr<'g>) {
    let channels = x.shape().dims().get(1).copied().unwrap_or(1);
    let each = channels * filter * filter;
    let filters =
        scope.param("filters", [maps, channels, filter, filter], || scope.weights("filters", maps * each, each, gain));
    (filters, scope.param("bias", [maps, 1, 1], || Initial::new(vec![0.0; maps])))
}

/// Upsample images to a size, then apply a convolution and an elementwise function.
///
/// If both sizes are doubled, the four pixels that one becomes depend on few of its neighbours, each with several
/// elements of the filter. A convolution of the small image with sums of those elements, one for each of the four, does
/// the same with a third of the work (9 products instead of 25 if the filters are 5 by 5).
fn upsampled_conv<'g>(
    scope: &Scope<'g>,
    x: Expr<'g>,
    [h, w]: [usize; 2],
    maps: usize,
    filter: usize,
    gain: f64,
    then: impl Fn(Expr<'g>) -> Expr<'g>,
) -> Expr<'g> {
    let shape = x.shape();
    let &[rows, channels, small_h, small_w] = shape.dims() else { return x };
    if [h, w] != [2 * small_h, 2 * small_w] || filter.is_multiple_of(2) {
        return then(conv(scope, x.upsample(h, w), maps, filter, 1, gain));
    }
    let (filters, bias) = filters(scope, x, maps, filter, gain);
    // Filter element i of pixel p of its pair falls on the small pixel (p + i - around) / 2, rounded down.
    let around = filter / 2;
    let (before, after) = (around.div_ceil(2), around.div_ceil(2));
    let taps = before + 1 + after;
    let tap = |p: usize, i: usize| (p + i + 2 * before - around) / 2;
    let mut sums = vec![0.0f32; filter * filter * 4 * taps * taps];
    for (i, j) in (0..filter).flat_map(|i| (0..filter).map(move |j| (i, j))) {
        for (p, q) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let column = ((2 * p + q) * taps + tap(p, i)) * taps + tap(q, j);
            sums[(i * filter + j) * 4 * taps * taps + column] = 1.0;
        }
    }
    let sums = match Array::new([filter * filter, 4 * taps * taps], sums) {
        Ok(sums) => x.graph().literal(sums.cast(filters.dtype())),
        Err(_) => return x,
    };
    let four = filters.reshape([maps * channels, filter * filter]).matmul(sums);
    let four = four.reshape([maps, channels, 2, 2, taps, taps]).permute(&[2, 3, 0, 1, 4, 5]);
    let y = x.conv2d(four.reshape([4 * maps, channels, taps, taps]), 1, (before, after));
    let y = then(y.reshape([rows, 2, 2, maps, small_h, small_w]) + bias);
    y.permute(&[0, 3, 4, 1, 5, 2]).reshape([rows, maps, h, w])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::initialisation::Initialisation;
    use crate::params::Params;
    use crate::scope::Choices;
    use mcvi_expr::{DType, Graph};

    #[test]
    fn an_upsampled_convolution_is_a_convolution_of_an_upsampled_image() {
        for (filter, [h, w], large) in [(5, [3, 4], [6, 8]), (3, [2, 5], [4, 10]), (5, [4, 4], [7, 7])] {
            let graph = Graph::new();
            let start = Initialisation::standard(1);
            let scope = Scope::new(&graph, 2, DType::F64, Choices::Average, &start, &Params::default()).unwrap();
            let x = graph.normal(1, DType::F64, [2, 3, h, w]);
            let fast = upsampled_conv(&scope, x, large, 4, filter, 1.0, Expr::softplus);
            let plain = conv(&scope, x.upsample(large[0], large[1]), 4, filter, 1, 1.0).softplus();
            let mut program =
                graph.program().output("off", (fast - plain).abs().max_over(&[0, 1, 2, 3])).compile().unwrap();
            program.run(1).unwrap();
            assert!(program.output("off").unwrap().to_f64()[0] < 1e-12);
        }
    }
}
