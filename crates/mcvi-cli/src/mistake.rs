//! What is the user's to mend, told apart from everything else by the exit code.

use std::fmt;

/// A mistake of the user's, said for people.
#[derive(Debug)]
pub struct Mistake(pub String);

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Mistake {}

/// Call an error the user's mistake, with all it says.
pub fn mistaken(error: anyhow::Error) -> anyhow::Error {
    anyhow::Error::new(Mistake(format!("{error:#}")))
}

/// 2 for the user's mistakes, 1 for anything else.
pub fn exit_code(error: &anyhow::Error) -> u8 {
    let theirs = error.chain().any(|e| {
        let library = e.downcast_ref::<mcvi::Error>();
        e.is::<Mistake>()
            || matches!(
                library,
                Some(mcvi::Error::Setting { .. } | mcvi::Error::Target { .. } | mcvi::Error::File { .. })
            )
    });
    if theirs { 2 } else { 1 }
}

/// The word nearest to one that is not known, if it is near at all.
pub fn nearest<'a>(word: &str, among: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let scored = among.map(|w| (distance(&word.to_lowercase(), &w.to_lowercase()), w));
    scored.min().filter(|(d, w)| 2 * d <= w.chars().count().max(2)).map(|(_, w)| w)
}

/// Levenshtein's edit distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let change = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = change.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}
