//! How text reaches a terminal, a pipe or a file: names that come from files cannot give orders to the terminal, and
//! programs can read the numbers.

use std::ffi::OsString;
use std::fmt::Write;
use std::io::IsTerminal;

/// Where text is printed.
#[derive(Clone, Copy)]
pub struct Destination {
    terminal: bool,
    utf8: bool,
}

impl Destination {
    /// A stream of this process.
    pub fn of(stream: &impl IsTerminal) -> Self {
        Destination { terminal: stream.is_terminal(), utf8: cfg!(windows) || is_utf8(|name| std::env::var_os(name)) }
    }

    /// Text for people. Control characters are escaped, and numbers have a true minus sign only where people read them.
    pub fn text(self, text: &str) -> String {
        let text = escaped(text);
        if self.terminal && self.utf8 { text } else { text.replace('−', "-") }
    }

    /// JSON, in which the first control characters are escaped already.
    pub fn json(self, json: &str) -> String {
        let escape = |c: char| if is_order(c) { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() };
        // Such characters occur inside strings only.
        if self.terminal { json.chars().map(escape).collect() } else { json.to_owned() }
    }

    /// Data for programs, which get every character as it is.
    pub fn data(self, data: &str) -> String {
        if self.terminal { escaped(data) } else { data.to_owned() }
    }
}

/// Text whose characters are all shown: `\u{1b}` instead of an escape.
pub fn escaped(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_order(c) {
            let _ = write!(shown, "{}", c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Whether a terminal obeys a character instead of showing it, or shows others in another order because of it.
fn is_order(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t') || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Whether the locale's characters are UTF-8. Without a locale they are ASCII.
fn is_utf8(variable: impl Fn(&str) -> Option<OsString>) -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(variable).find(|value| !value.is_empty());
    let name = locale.unwrap_or_default().to_string_lossy().to_lowercase();
    name.contains("utf-8") || name.contains("utf8")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIPE: Destination = Destination { terminal: false, utf8: true };
    const SCREEN: Destination = Destination { terminal: true, utf8: true };

    #[test]
    fn text_cannot_give_orders_to_a_terminal() {
        for to in [PIPE, SCREEN] {
            assert_eq!(to.text("a\x1b[31mb\r\x07\x7f\tc\nd"), "a\\u{1b}[31mb\\u{d}\\u{7}\\u{7f}\tc\nd");
            assert_eq!(to.text("\u{9b}31m \u{202e}z\u{2066} z₀ é"), "\\u{9b}31m \\u{202e}z\\u{2066} z₀ é");
        }
        assert_eq!(SCREEN.data("x\x1b[31m,−1"), "x\\u{1b}[31m,−1");
        assert_eq!(PIPE.data("x\x1b[31m,−1"), "x\x1b[31m,−1", "programs get what there is");
        let json = serde_json::json!({"a\x1b\u{9b}": "\u{202e}−"});
        let shown = SCREEN.json(&json.to_string());
        assert!(!shown.contains(is_order), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).expect("still JSON"), json);
        assert_eq!(PIPE.json(&json.to_string()), json.to_string());
    }

    #[test]
    fn a_true_minus_is_for_people_only() {
        assert_eq!(SCREEN.text("−1.5 ± 0.2"), "−1.5 ± 0.2");
        assert_eq!(PIPE.text("−1.5 ± 0.2"), "-1.5 ± 0.2");
        assert_eq!(Destination { terminal: true, utf8: false }.text("−1.5"), "-1.5");
    }

    #[test]
    fn the_first_variable_that_is_set_gives_the_locale() {
        let utf8 = |set: &[(&str, &str)]| is_utf8(|name| Some(set.iter().find(|(n, _)| *n == name)?.1.into()));
        assert!(utf8(&[("LANG", "en_GB.UTF-8")]));
        assert!(utf8(&[("LC_ALL", ""), ("LC_CTYPE", "C.utf8"), ("LANG", "C")]));
        assert!(!utf8(&[("LC_ALL", "C"), ("LANG", "en_GB.UTF-8")]));
        assert!(!utf8(&[("LANG", "POSIX")]) && !utf8(&[("LANG", "de_DE.ISO-8859-1")]) && !utf8(&[]));
    }
}
