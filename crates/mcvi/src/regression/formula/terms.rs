//! The algebra of formulas: what `+`, `*`, `:`, `/`, `^` and `-` make of terms, and what stands apart from them.

use super::{Formula, Kind, Node, Operator};
use crate::error::Result;
use std::collections::HashSet;

/// A product of variables; without any, the intercept.
pub(in super::super) type Term = Vec<Node>;

/// The right side of a formula.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in super::super) struct Terms {
    /// Whether there is an intercept.
    pub intercept: bool,
    /// The other terms: those of fewer variables first.
    pub terms: Vec<Term>,
    /// What is added with a coefficient of one.
    pub offsets: Vec<Node>,
    pub groups: Vec<GroupTerm>,
}

/// Coefficients that differ from group to group: `(1 + x | g)`.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct GroupTerm {
    pub intercept: bool,
    pub terms: Vec<Term>,
    /// The columns whose combinations are the groups.
    pub by: Vec<Node>,
    /// Whether coefficients of a group may be correlated.
    pub correlated: bool,
    /// The whole of it.
    pub node: Node,
}

/// A part of the left side: `y | trials(n)`.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct Part {
    pub name: String,
    pub value: Node,
}

/// The response, and what is said about it after a bar.
pub(in super::super) fn parts(formula: &Formula) -> Result<(Node, Vec<Part>)> {
    let (left, _) = formula.sides();
    let Kind::Binary(Operator::Bar, response, about) = &left.kind else { return Ok((left.clone(), vec![])) };
    let mut parts = vec![];
    let mut rest = vec![&**about];
    while let Some(node) = rest.pop() {
        match &node.kind {
            Kind::Binary(Operator::Add, a, b) => rest.extend([&**b, &**a]),
            Kind::Call(name, arguments) if arguments.len() == 1 && matches!(name.as_str(), "trials" | "weights") => {
                parts.push(Part { name: name.clone(), value: arguments[0].value.clone() });
            }
            _ => return Err(formula.at(node, "expected trials(n) or weights(w) after `|`")),
        }
    }
    Ok(((**response).clone(), parts))
}

impl Terms {
    /// Of a formula, where `.` stands for these columns.
    pub fn of(formula: &Formula, others: &[String]) -> Result<Self> {
        let (_, right) = formula.sides();
        let mut all = Terms { intercept: true, ..Terms::default() };
        let algebra = Algebra { formula, others };
        algebra.collect(right, true, &mut all)?;
        all.terms = in_order(all.terms);
        Ok(all)
    }

    /// All columns that are named in it.
    pub fn columns(&self) -> Vec<String> {
        let mut names = vec![];
        let groups = self.groups.iter();
        let of_groups = groups.flat_map(|g| g.terms.iter().flatten().chain(&g.by));
        self.terms.iter().flatten().chain(&self.offsets).chain(of_groups).for_each(|node| node.columns(&mut names));
        names
    }
}

struct Algebra<'a> {
    formula: &'a Formula,
    others: &'a [String],
}

impl Algebra<'_> {
    /// Add the parts of a sum, one after the other, to what there is.
    fn collect(&self, node: &Node, plus: bool, into: &mut Terms) -> Result<()> {
        match &node.kind {
            Kind::Binary(Operator::Add, a, b) => {
                self.collect(a, plus, into)?;
                self.collect(b, plus, into)
            }
            Kind::Binary(Operator::Subtract, a, b) => {
                self.collect(a, plus, into)?;
                self.collect(b, !plus, into)
            }
            Kind::Negative(inner) => self.collect(inner, !plus, into),
            Kind::Number(x) if *x == 0.0 || *x == 1.0 => {
                into.intercept = (*x == 1.0) == plus;
                Ok(())
            }
            Kind::Nested(inner) if matches!(inner.kind, Kind::Binary(Operator::Bar | Operator::DoubleBar, ..)) => {
                if !plus {
                    return Err(self.formula.at(node, "group terms are added, not taken away"));
                }
                into.groups.extend(self.groups(node, inner)?);
                Ok(())
            }
            Kind::Call(name, arguments) if name == "offset" => {
                let [only] = &arguments[..] else {
                    return Err(self.formula.at(node, "expected one argument, as in offset(log(exposure))"));
                };
                into.offsets.push(only.value.clone());
                Ok(())
            }
            _ => {
                let (constant, terms): (Vec<Term>, Vec<Term>) = self.terms(node)?.into_iter().partition(Vec::is_empty);
                if !constant.is_empty() {
                    into.intercept = plus;
                }
                if plus {
                    into.terms.extend(terms);
                } else {
                    let gone: HashSet<String> = terms.iter().map(key).collect();
                    into.terms.retain(|t| !gone.contains(&key(t)));
                }
                Ok(())
            }
        }
    }

    /// The terms of a part, among them perhaps the intercept.
    fn terms(&self, node: &Node) -> Result<Vec<Term>> {
        use Operator::*;
        match &node.kind {
            Kind::Name(_) | Kind::Call(..) => Ok(vec![vec![node.clone()]]),
            Kind::Dot => {
                let column = |name: &String| vec![Node { kind: Kind::Name(name.clone()), span: node.span.clone() }];
                Ok(self.others.iter().map(column).collect())
            }
            Kind::Number(x) if *x == 1.0 => Ok(vec![vec![]]),
            Kind::Nested(inner) => match &inner.kind {
                Kind::Binary(Add | Subtract, ..) | Kind::Negative(_) => {
                    let mut nested = Terms::default();
                    self.collect(inner, true, &mut nested)?;
                    if !nested.groups.is_empty() || !nested.offsets.is_empty() {
                        let what = "group terms and offsets stand on their own: add them, without interactions";
                        return Err(self.formula.at(node, what));
                    }
                    let intercept = nested.intercept.then(Vec::new);
                    Ok(intercept.into_iter().chain(nested.terms).collect())
                }
                _ => self.terms(inner),
            },
            Kind::Binary(Interact | Within, a, b) => Ok(self.products(&self.terms(a)?, &self.terms(b)?)),
            Kind::Binary(Multiply, a, b) => {
                let (a, b) = (self.terms(a)?, self.terms(b)?);
                let products = self.products(&a, &b);
                Ok(distinct([a, b, products].concat()))
            }
            // a / b is a + a:b
            Kind::Binary(Divide, a, b) => {
                let (a, b) = (self.terms(a)?, self.terms(b)?);
                let mut whole: Term = vec![];
                a.iter().flatten().for_each(|v| push(&mut whole, v));
                let nested = self.products(&[whole], &b);
                Ok(distinct([a, nested].concat()))
            }
            Kind::Binary(Power, a, b) => {
                let Kind::Number(power) = b.kind else { return Err(self.refuse(node)) };
                if !(1.0..=9.0).contains(&power) || power.fract() != 0.0 {
                    return Err(self.refuse(node));
                }
                let base = self.terms(a)?;
                let mut all = base.clone();
                for _ in 1..power as usize {
                    let products = self.products(&all, &base);
                    all = distinct([all, products].concat());
                }
                Ok(all)
            }
            _ => Err(self.refuse(node)),
        }
    }

    fn refuse(&self, node: &Node) -> crate::error::Error {
        let what = match &node.kind {
            Kind::Number(_) | Kind::Text(_) => "only 0 and 1, for the intercept, can stand here among columns",
            Kind::Binary(Operator::Bar | Operator::DoubleBar, ..) => {
                "put a group term in parentheses, as in (1 + x | g), and add it to the others"
            }
            Kind::Binary(Operator::Power, ..) => {
                "`^` makes interactions, up to that many variables: (a + b + c)^2; for the power of a number write I(x^2)"
            }
            _ => "this is no term; for arithmetic write I(…), as in I(a - b)",
        };
        self.formula.at(node, what)
    }

    fn products(&self, a: &[Term], b: &[Term]) -> Vec<Term> {
        let product = |(a, b): (&Term, &Term)| {
            let mut product = a.clone();
            b.iter().for_each(|v| push(&mut product, v));
            product
        };
        distinct(a.iter().flat_map(|a| b.iter().map(move |b| (a, b))).map(product).collect())
    }

    /// What `(terms | groups)` stands for: `a/b` are the groups of a, and those of b within a.
    fn groups(&self, node: &Node, inner: &Node) -> Result<Vec<GroupTerm>> {
        let Kind::Binary(bar, left, right) = &inner.kind else { return Ok(vec![]) };
        let mut of = Terms { intercept: true, ..Terms::default() };
        self.collect(left, true, &mut of)?;
        if !of.groups.is_empty() || !of.offsets.is_empty() {
            return Err(self.formula.at(left, "expected terms, as in (1 + x | g)"));
        }
        if !of.intercept && of.terms.is_empty() {
            return Err(self
                .formula
                .at(left, "nothing varies between groups; write (1 | g) for an intercept that does"));
        }
        of.terms = in_order(of.terms);
        let by = self.terms(right)?;
        for variable in by.iter().flatten() {
            if variable.name().is_none() {
                return Err(self.formula.at(variable, "groups are told apart by columns: give their names"));
            }
        }
        if by.iter().any(Vec::is_empty) {
            return Err(self.formula.at(right, "groups are told apart by columns: give their names"));
        }
        let (intercept, correlated) = (of.intercept, *bar == Operator::Bar);
        let group = |by: Term| GroupTerm { intercept, terms: of.terms.clone(), by, correlated, node: node.clone() };
        Ok(by.into_iter().map(group).collect())
    }
}

fn push(term: &mut Term, variable: &Node) {
    if !term.iter().any(|v| v.to_string() == variable.to_string()) {
        term.push(variable.clone());
    }
}

/// Terms once each, in the order they were written.
fn distinct(terms: Vec<Term>) -> Vec<Term> {
    let mut seen = HashSet::new();
    terms.into_iter().filter(|term| seen.insert(key(term))).collect()
}

/// Those of fewer variables first.
fn in_order(terms: Vec<Term>) -> Vec<Term> {
    let mut terms = distinct(terms);
    terms.sort_by_key(Vec::len);
    terms
}

/// The same for products of the same variables, in whatever order.
fn key(term: &Term) -> String {
    let mut labels: Vec<String> = term.iter().map(Node::to_string).collect();
    labels.sort();
    labels.join("\0")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand(text: &str) -> Result<String> {
        let formula = Formula::parse(text)?;
        let others = ["a", "b", "c"].map(str::to_owned);
        let terms = Terms::of(&formula, &others)?;
        let show = |term: &Term| term.iter().map(Node::to_string).collect::<Vec<_>>().join(":");
        let side = |intercept: bool, terms: &[Term]| {
            let one = intercept.then(|| "1".to_owned());
            one.into_iter().chain(terms.iter().map(show)).collect::<Vec<_>>().join(" + ")
        };
        let groups = terms.groups.iter().map(|g| {
            let bar = if g.correlated { "|" } else { "||" };
            format!(" ({} {bar} {})", side(g.intercept, &g.terms), show(&g.by))
        });
        let offsets = terms.offsets.iter().map(|o| format!(" offset {o}"));
        Ok(side(terms.intercept, &terms.terms) + &groups.chain(offsets).collect::<String>())
    }

    #[test]
    fn terms_are_those_of_r() {
        for (formula, terms) in [
            ("y ~ x", "1 + x"),
            ("y ~ x - 1", "x"),
            ("y ~ 0 + x", "x"),
            ("y ~ 1", "1"),
            ("y ~ a * b", "1 + a + b + a:b"),
            ("y ~ a:b + c", "1 + c + a:b"),
            ("y ~ (a + b + c)^2", "1 + a + b + c + a:b + a:c + b:c"),
            ("y ~ (a + b + c)^3 - a:b:c", "1 + a + b + c + a:b + a:c + b:c"),
            ("y ~ a / b", "1 + a + a:b"),
            ("y ~ (a + b) / c", "1 + a + b + a:b:c"),
            ("y ~ b %in% a", "1 + b:a"),
            ("y ~ .", "1 + a + b + c"),
            ("y ~ . - b", "1 + a + c"),
            ("y ~ .^2", "1 + a + b + c + a:b + a:c + b:c"),
            ("y ~ a + a + b:a + a:b", "1 + a + b:a"),
            ("y ~ a * b * c - a:b:c", "1 + a + b + c + a:b + a:c + b:c"),
            ("y ~ log(a) + I(b^2) + poly(c, 2)", "1 + log(a) + I(b^2) + poly(c, 2)"),
            ("y ~ a + (1 | g)", "1 + a (1 | g)"),
            ("y ~ (a | g)", "1 (1 + a | g)"),
            ("y ~ (0 + a || g)", "1 (a || g)"),
            ("y ~ (1 | a/b)", "1 (1 | a) (1 | a:b)"),
            ("y ~ (1 | a:b) + (a * b || c)", "1 (1 | a:b) (1 + a + b + a:b || c)"),
            ("y ~ a + offset(log(e))", "1 + a offset log(e)"),
            ("y ~ `dose (mg)`", "1 + dose (mg)"),
        ] {
            assert_eq!(expand(formula).unwrap_or_else(|e| panic!("{formula}: {e}")), terms, "{formula}");
        }
    }

    #[test]
    fn what_is_no_term_is_pointed_out() {
        for (formula, says) in [
            ("y ~ x | g", "in parentheses"),
            ("y ~ x + 2", "only 0 and 1"),
            ("y ~ x^2.5", "I(x^2)"),
            ("y ~ (1 | log(g))", "give their names"),
            ("y ~ (0 | g)", "nothing varies"),
            ("y ~ x:(1 | g)", "group term"),
            ("y ~ x > 3", "I(…)"),
            ("y ~ - (1 | g)", "not taken away"),
            ("y ~ offset(a, b)", "one argument"),
        ] {
            let said = expand(formula).expect_err(formula).to_string();
            assert!(said.contains(says) && said.contains('^'), "{formula}: {said}");
        }
        let f = Formula::parse("y | cens(x) ~ z").expect("a formula");
        assert!(parts(&f).expect_err("refused").to_string().contains("trials(n) or weights(w)"));
    }
}
