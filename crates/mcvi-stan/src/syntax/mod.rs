//! From text to a syntax tree.

pub mod ast;
mod declaration;
mod expression;
mod include;
mod lexer;
mod parser;
mod statement;

pub use parser::parse;
