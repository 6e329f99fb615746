//! Networks: functions from rows of features to rows of numbers. A network is forward code over a [`Scope`]; its
//! weights are named, trained and saved like every other parameter.

use crate::error::Error;
use crate::scope::{Initial, Scope};
use mcvi_expr::Expr;
use std::fmt::Debug;

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
    /// Evaluate it. The last layer is linear, and starts with weights `gain` times their usual size.
    fn apply<'g>(&self, scope: &Scope<'g>, inputs: &[(&str, Expr<'g>)], outputs: usize, gain: f64) -> Expr<'g>;
}

/// Layers of softplus units, then a linear one.
#[derive(Clone, Debug, PartialEq, Eq)]
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
}

/// Filters of this extent in every convolution.
const FILTER: usize = 5;
/// What hidden layers of convolutional networks are drawn with: softplus halves what differs between rows, and through
/// five layers nothing of it would be left. (Two layers keep enough.)
const DEEP: f64 = 1.7;

/// From an image to numbers: convolutions that halve it, joined by the other features, a hidden layer, a linear one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConvEncoder {
    /// Height and width of the image, which is the block named `x`.
    pub image: [usize; 2],
    /// Maps of each convolution.
    pub maps: Vec<usize>,
    /// Width of the hidden layer.
    pub hidden: usize,
}

/// From numbers to an image: the [`ConvEncoder`] mirrored, with upsampling in place of strides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConvDecoder {
    /// Height and width of the image.
    pub image: [usize; 2],
    /// Maps of the convolutions of the encoder it mirrors.
    pub maps: Vec<usize>,
    /// Width of the hidden layer.
    pub hidden: usize,
}

/// The image's extents before the first and after each halving.
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
}

impl Network for ConvDecoder {
    fn apply<'g>(&self, scope: &Scope<'g>, inputs: &[(&str, Expr<'g>)], outputs: usize, gain: f64) -> Expr<'g> {
        let sizes = halvings(self.image, self.maps.len());
        let ([h, w], deepest) = (sizes[self.maps.len()], self.maps.last().copied().unwrap_or(1));
        let hidden = dense(&scope.child("layer1"), inputs, self.hidden, DEEP).softplus();
        let flat = dense(&scope.child("layer2"), &[("hidden", hidden)], deepest * h * w, DEEP);
        let rows = flat.shape().dims().first().copied().unwrap_or(1);
        let mut image = flat.reshape([rows, deepest, h, w]);
        for i in (0..self.maps.len()).rev() {
            let [h, w] = sizes[i];
            let last = i == 0;
            let maps = if last { 1 } else { self.maps[i - 1] };
            let at = scope.child(&format!("conv{}", self.maps.len() - i));
            let x = image.softplus().upsample(h, w);
            image = conv(&at, x, maps, FILTER, 1, if last { gain } else { DEEP });
        }
        image.reshape([rows, outputs])
    }
}

/// A linear layer over several blocks of inputs, drawn so that its outputs have about `gain` squared as variance.
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

/// A convolution of images `[rows, channels, h, w]` to as many maps as given, each of the image's extents divided by the
/// stride and rounded up.
pub fn conv<'g>(scope: &Scope<'g>, x: Expr<'g>, maps: usize, filter: usize, stride: usize, gain: f64) -> Expr<'g> {
    let channels = x.shape().dims().get(1).copied().unwrap_or(1);
    let (each, around) = (channels * filter * filter, filter / 2);
    let filters =
        scope.param("filters", [maps, channels, filter, filter], || scope.weights("filters", maps * each, each, gain));
    let bias = scope.param("bias", [maps, 1, 1], || Initial::new(vec![0.0; maps]));
    x.conv2d(filters, stride, (around, filter - 1 - around)) + bias
}
