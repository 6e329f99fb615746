//! Tokens of a program with its included files, within limits.

use super::lexer::{Kind, Lexer, Token};
use crate::diagnostic::Diagnostic;
use crate::source::{Includes, Sources, Span};
use std::collections::HashSet;
use std::sync::Arc;

/// Files may include files this deep.
const DEPTH: usize = 16;
/// Files that a program may include in all.
const FILES: usize = 256;
/// Bytes of all files together.
const BYTES: usize = 16 << 20;

/// All tokens of a program, those of included files in their place.
pub fn tokens(sources: &mut Sources, includes: &Includes<'_>) -> Result<Vec<Token>, Diagnostic> {
    let mut out = vec![];
    read(sources, includes, 0, &mut vec![], &mut out)?;
    // Names of the same text are one, so that comparing them is comparing pointers.
    let mut names: HashSet<Arc<str>> = HashSet::new();
    for token in &mut out {
        if let Kind::Name(name) = &mut token.kind {
            match names.get(name) {
                Some(same) => *name = same.clone(),
                None => {
                    names.insert(name.clone());
                }
            }
        }
    }
    let end = sources.files[0].text.len() as u32;
    out.push(Token { kind: Kind::End, span: Span { file: 0, start: end, end } });
    Ok(out)
}

/// The tokens of one file; `open` are the names of the files being read.
fn read(
    sources: &mut Sources,
    includes: &Includes<'_>,
    file: u32,
    open: &mut Vec<String>,
    out: &mut Vec<Token>,
) -> Result<(), Diagnostic> {
    let text = sources.files[file as usize].text.clone();
    let mut lexer = Lexer::new(&text, file);
    loop {
        let token = lexer.next()?;
        match &token.kind {
            Kind::End => return Ok(()),
            Kind::Include(name) => {
                let refuse = |why: String| Err(Diagnostic::new(token.span, why));
                if open.iter().any(|o| **o == **name) {
                    return refuse(format!("{name} includes itself"));
                }
                if open.len() >= DEPTH || sources.files.len() > FILES {
                    return refuse(format!("more than {FILES} included files, or {DEPTH} within each other"));
                }
                let Some(included) = includes(name) else {
                    let error = Diagnostic::new(token.span, format!("the file {name} was not found"));
                    return Err(error.help("included files are looked for in the program's folder"));
                };
                if included.len() + sources.files.iter().map(|f| f.text.len()).sum::<usize>() > BYTES {
                    return refuse(format!("the program with its included files has more than {BYTES} bytes"));
                }
                let number = sources.add(name, included);
                open.push(name.to_string());
                read(sources, includes, number, open, out)?;
                open.pop();
            }
            _ => out.push(token),
        }
    }
}
