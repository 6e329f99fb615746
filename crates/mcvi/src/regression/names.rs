//! Names of quantities derived from names of columns, and suggestions for misspelt names.

use std::collections::HashSet;

/// Maximum length of a column's name in a quantity's: quantities become files, whose names are limited.
const LONGEST: usize = 60;

/// Names in use.
#[derive(Default)]
pub(super) struct Names(HashSet<String>);

impl Names {
    /// Reserve a name that is already safe.
    pub fn reserve(&mut self, name: &str) {
        self.0.insert(name.to_lowercase());
    }

    /// A name of letters, digits and underscores for a column, with a number appended if it is taken.
    pub fn safe(&mut self, prefix: &str, column: &str) -> String {
        self.free(&format!("{prefix}{}", word(column)))
    }

    /// A name, with a number appended if it is taken.
    pub fn free(&mut self, first: &str) -> String {
        let mut name = first.to_owned();
        let mut count = 1;
        // Not every file system distinguishes `A` from `a`.
        while !self.0.insert(name.to_lowercase()) {
            count += 1;
            name = format!("{first}_{count}");
        }
        name
    }
}

/// The letters, digits and underscores of a text, as one word.
pub(super) fn word(text: &str) -> String {
    let kept = |c: char| c.is_alphanumeric() || c == '_';
    let words: Vec<&str> = text.split(|c| !kept(c)).filter(|word| !word.is_empty()).collect();
    let word: String = words.join("_").chars().take(LONGEST).collect();
    if word.is_empty() { "column".to_owned() } else { word }
}

/// The word that was probably meant: the one at the smallest edit distance, ignoring case, and at most half of `word`'s
/// length.
///
/// ```
/// let columns = ["age", "weight", "height"];
/// assert_eq!(mcvi::regression::nearest("wieght", columns.into_iter()), Some("weight"));
/// assert_eq!(mcvi::regression::nearest("colour", columns.into_iter()), None);
/// ```
pub fn nearest<'a>(word: &str, among: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let word: Vec<char> = word.to_lowercase().chars().collect();
    let most = word.len() / 2;
    let far = |other: &str| distance(&word, &other.to_lowercase().chars().collect::<Vec<_>>());
    among.map(|other| (far(other), other)).filter(|(d, _)| *d <= most).min_by_key(|(d, _)| *d).map(|(_, other)| other)
}

/// Levenshtein distance: letters to insert, remove or replace.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_is_at_most_half_away() {
        let near = |word| nearest(word, ["age", "income", "Größe"].into_iter());
        assert_eq!(near("AGE"), Some("age"));
        assert_eq!(near("incom"), Some("income"));
        assert_eq!(near("grosse"), Some("Größe"));
        assert_eq!(near("xyz"), None);
        assert_eq!(near(""), None);
        assert_eq!(nearest("a", std::iter::empty()), None);
    }

    #[test]
    fn distances_are_levenshteins() {
        let d = |a: &str, b: &str| distance(&a.chars().collect::<Vec<_>>(), &b.chars().collect::<Vec<_>>());
        assert_eq!((d("kitten", "sitting"), d("", "abc"), d("abc", ""), d("ab", "ba")), (3, 3, 3, 2));
    }

    #[test]
    fn safe_names_are_unique_and_short() {
        let mut names = Names::default();
        assert_eq!(names.safe("beta_", "city=São Paulo"), "beta_city_São_Paulo");
        assert_eq!(names.safe("beta_", "Age"), "beta_Age");
        assert_eq!(names.safe("beta_", "age"), "beta_age_2");
        assert_eq!(names.safe("beta_", "age!"), "beta_age_3");
        assert_eq!(names.safe("", "[/,]"), "column");
        assert_eq!(names.safe("", &"x".repeat(500)).len(), LONGEST);
    }
}
