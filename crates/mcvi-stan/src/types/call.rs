//! The types of calls: overloads, promotion, and where which functions may be called.

use super::Type;
use super::check::{Checked, Checker, Typed, legal_name};
use super::environment::{Block, Signature, normalized};
use super::{higher_order, signatures};
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use crate::syntax::ast::{Call, Name};

/// Endings of functions whose first argument is followed by a bar.
const CONDITIONAL: &[&str] = &["_lpdf", "_lpmf", "_lupdf", "_lupmf", "_cdf", "_lcdf", "_lccdf"];

/// What a call was found to be.
pub enum Found {
    /// A function of the program, with its result.
    Own(Option<Type>),
    /// A function of Stan.
    Library(Type),
}

impl Found {
    pub fn result(self) -> Option<Type> {
        match self {
            Found::Own(result) => result,
            Found::Library(result) => Some(result),
        }
    }
}

fn list(arguments: &[Typed]) -> String {
    arguments.iter().map(|a| a.ty.to_string()).collect::<Vec<_>>().join(", ")
}

impl Checker {
    /// A call as an expression.
    pub fn call(&mut self, call: &Call, span: Span) -> Checked<Typed> {
        let name = &call.name;
        legal_name(name)?;
        let ends = |suffixes: &[&str]| suffixes.iter().any(|s| name.text.ends_with(s));
        let bar = |message: &str, text: String| Err(Diagnostic::new(span, message).help(text));
        if call.conditional && !ends(CONDITIONAL) {
            return bar(
                "a bar is only written in densities and distribution functions",
                format!("write {}(a, b)", name.text),
            );
        }
        if let Some(kind) = higher_order::kind(&name.text) {
            return self.higher_order(kind, call, span);
        }
        let arguments: Vec<Typed> = call.arguments.iter().map(|a| self.expression(a)).collect::<Checked<_>>()?;
        let found = self.resolve(name, &arguments, span)?;
        if !call.conditional && ends(CONDITIONAL) {
            return bar("a bar follows the first argument of densities", format!("write {}(x | ...)", name.text));
        }
        self.may_call(name, span)?;
        let Some(ty) = found.result() else {
            return Err(Diagnostic::new(span, format!("`{}` returns nothing that could be used", name.text)));
        };
        let autodiff = arguments.iter().any(|a| a.autodiff) && !ty.is_discrete();
        Ok(Typed { ty, autodiff })
    }

    /// A call as a statement: of a function that returns nothing.
    pub fn call_statement(&mut self, call: &Call, span: Span) -> Checked<()> {
        legal_name(&call.name)?;
        let arguments: Vec<Typed> = call.arguments.iter().map(|a| self.expression(a)).collect::<Checked<_>>()?;
        let found = self.resolve(&call.name, &arguments, span)?;
        self.may_call(&call.name, span)?;
        match found.result() {
            None => Ok(()),
            Some(ty) => {
                let error = Diagnostic::new(span, format!("the {ty} that `{}` returns is not used", call.name.text));
                Err(error.help("only functions that return nothing are called as statements"))
            }
        }
    }

    /// Which function is meant: the one with the fewest promotions.
    pub fn resolve(&mut self, name: &Name, arguments: &[Typed], span: Span) -> Checked<Found> {
        let known = self.names.has_function(&name.text) || signatures::exists(&normalized(&name.text));
        if !known {
            return Err(self.unknown(name));
        }
        let own = self.own(&name.text, arguments, span)?;
        if let Some(found) = own {
            return Ok(Found::Own(found));
        }
        let types: Vec<Type> = arguments.iter().map(|a| a.ty.clone()).collect();
        if let Some(ty) = signatures::result(&normalized(&name.text), &types) {
            return Ok(Found::Library(ty));
        }
        let message = format!("`{}` does not take ({})", name.text, list(arguments));
        let mut error = Diagnostic::new(span, message);
        for f in self.names.overloads(&name.text).take(3) {
            let parameters = f.parameters.iter().map(|(ty, data)| format!("{}{ty}", if *data { "data " } else { "" }));
            error = error.related(f.span, format!("it takes ({})", parameters.collect::<Vec<_>>().join(", ")));
        }
        match takes(&normalized(&name.text), &types) {
            Some(help) if error.related.is_empty() => Err(error.help(help)),
            _ => Err(error),
        }
    }

    /// The function of the program that fits best; `None` if none does.
    fn own(&self, name: &str, arguments: &[Typed], span: Span) -> Checked<Option<Option<Type>>> {
        let fits = |f: &Signature| cost(f, arguments);
        let mut found: Vec<(usize, &Signature)> =
            self.names.overloads(name).filter_map(|f| Some((fits(f)?, f))).collect();
        found.sort_by_key(|(cost, _)| *cost);
        match found.as_slice() {
            [] => Ok(None),
            [(a, first), (b, second), ..] if a == b && first.span != second.span => {
                let error = Diagnostic::new(span, format!("two functions `{name}` fit this call equally well"));
                Err(error.related(first.span, "this one").related(second.span, "and this one"))
            }
            [(_, first), ..] => Ok(Some(first.result.clone())),
        }
    }

    fn unknown(&self, name: &Name) -> Diagnostic {
        if let Some(variable) = self.names.find(&name.text) {
            let error = Diagnostic::new(name.span, format!("`{}` is a variable, not a function", name.text));
            return error.related(variable.span, "it is declared here");
        }
        let error = Diagnostic::new(name.span, format!("there is no function `{}`", name.text));
        let with = |suffix: &str| {
            let full = format!("{}{suffix}", name.text);
            (self.names.has_function(&full) || signatures::exists(&full)).then_some(full)
        };
        if let Some(full) = ["_lpdf", "_lpmf", "_rng"].into_iter().find_map(with) {
            return error.help(format!("did you mean `{full}`?"));
        }
        match self.names.nearest(&name.text, signatures::names()) {
            Some(near) => error.help(format!("did you mean `{near}`?")),
            None => error,
        }
    }

    /// Whether a function with an ending that says what it does may be called here.
    fn may_call(&self, name: &Name, span: Span) -> Checked<()> {
        let in_block = |blocks: &[Block]| self.function.is_none() && blocks.contains(&self.block);
        let refuse = |what: &str| Err(Diagnostic::new(span, format!("`{}` can only be called in {what}", name.text)));
        if name.text.ends_with("_rng") {
            let here = in_block(&[Block::TransformedData, Block::GeneratedQuantities]);
            if self.in_sizes || !(here || self.in_function("_rng")) {
                return refuse("transformed data, generated quantities and _rng functions");
            }
        }
        if name.text.ends_with("_lp") {
            let here = in_block(&[Block::Model, Block::TransformedParameters]);
            if !(here || self.in_function("_lp")) {
                return refuse("the model and _lp functions");
            }
        }
        if name.text.ends_with("_jacobian") {
            let here = in_block(&[Block::TransformedParameters]);
            if !(here || self.in_function("_jacobian")) {
                return refuse("transformed parameters and _jacobian functions");
            }
        }
        if name.text.ends_with("_lupdf") || name.text.ends_with("_lupmf") {
            let inside = ["_lpdf", "_lpmf", "_lp"].iter().any(|s| self.in_function(s));
            if !(in_block(&[Block::Model]) || inside) {
                return refuse("the model and in densities");
            }
        }
        Ok(())
    }
}

/// In words, how what a function of Stan takes differs from some arguments.
fn takes(name: &str, types: &[Type]) -> Option<String> {
    let all = signatures::examples(name);
    let counts: Vec<usize> = all.iter().map(Vec::len).collect();
    if !counts.contains(&types.len()) {
        let (least, most) = (counts.iter().min()?, counts.iter().max()?);
        let count = if least == most { least.to_string() } else { format!("{least} to {most}") };
        return Some(format!("`{name}` takes {count} arguments, not {}", types.len()));
    }
    let is_whole = |ty: &Type| ty.is_discrete();
    let fitting: Vec<&Vec<Type>> = all.iter().filter(|list| list.len() == types.len()).collect();
    // An argument that is whole in every signature, and is not here.
    let wrong = (0..types.len()).find(|&i| !is_whole(&types[i]) && fitting.iter().all(|list| is_whole(&list[i])));
    wrong.map(|i| match i {
        0 if name.ends_with("_lpmf") => "it is a distribution of whole numbers: its variate must be int".to_owned(),
        i => format!("argument {} must be int or an array of int", i + 1),
    })
}

/// How many promotions a call needs; none if it does not fit.
pub fn cost(function: &Signature, arguments: &[Typed]) -> Option<usize> {
    if function.parameters.len() != arguments.len() {
        return None;
    }
    let each = function.parameters.iter().zip(arguments).map(|((ty, data_only), argument)| {
        if *data_only && argument.autodiff { None } else { argument.ty.promotion(ty) }
    });
    each.sum()
}
