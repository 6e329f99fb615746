//! Prints the lists of supported functions in `docs/stan.md`.
//!
//! `cargo run -p mcvi-stan --example supported`

fn main() {
    let (everywhere, of_data) = mcvi_stan::supported();
    let list = |names: &[&str]| names.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(" ");
    println!("Of parameters and data:\n\n{}\n\nOf data alone:\n\n{}", list(&everywhere), list(&of_data));
}
