//! Tests of the whole way from a program to its model, each with programs of its own.

mod read;

use mcvi_stan::{Diagnostics, Program};

/// Reads a program that includes nothing.
fn read(text: &str) -> Result<Program, Box<Diagnostics>> {
    Program::read("test.stan", text, &|_| None)
}

/// The first mistake of a program that must have one.
fn mistake(text: &str) -> String {
    match read(text) {
        Ok(_) => panic!("no mistake was found in:\n{text}"),
        Err(mistakes) => mistakes.list[0].message.clone(),
    }
}
