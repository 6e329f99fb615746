//! The page as HTML. All text is escaped, and a policy in the page keeps it from loading or running anything.

use super::{Page, ParameterRow, Section, Table, Verdict, VerdictKind};
use crate::number::counted;
use std::fmt::{Display, Write};

const STYLE: &str = include_str!("page.css");
/// Of more parameters than this all but the first few are folded away.
const LONG: usize = 24;
const SHOWN: usize = 12;

/// The page as one HTML document.
pub fn render(page: &Page) -> String {
    let mut html = Html(String::new());
    let title = Text(&page.title);
    html.put(format_args!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         img-src data:\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<header><h1>{title}</h1></header>\n<main>\n"
    ));
    if let Some(verdict) = &page.verdict {
        html.verdict(verdict);
    }
    html.facts(&page.facts);
    html.contents(page);
    html.parameters(&page.parameters);
    for (i, section) in page.sections.iter().enumerate() {
        html.section(i + 1, section);
    }
    html.put(format_args!("</main>\n<footer><p>{}</p></footer>\n</body>\n</html>\n", Text(&page.footer)));
    html.0
}

/// Text for content and for attributes in double quotes.
struct Text<'a>(&'a str);

impl Display for Text<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '&' => f.write_str("&amp;"),
            '<' => f.write_str("&lt;"),
            '>' => f.write_str("&gt;"),
            '"' => f.write_str("&quot;"),
            '\'' => f.write_str("&#39;"),
            '\n' => f.write_char(c),
            c if c.is_control() => f.write_char('\u{fffd}'),
            c => f.write_char(c),
        })
    }
}

struct Html(String);

impl Html {
    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.0.write_fmt(text);
    }

    fn verdict(&mut self, verdict: &Verdict) {
        // A different shape, word and border for each: colour only adds to them.
        let (class, word, icon) = match verdict.kind {
            VerdictKind::Good => {
                ("good", "Good", r#"<circle cx="12" cy="12" r="10"/><path d="M7 12.5l3.5 3.5L17 9"/>"#)
            }
            VerdictKind::Reweight => {
                ("reweight", "Reweight", r#"<path d="M12 3L22.5 21H1.5Z"/><path d="M12 9.5v5.5M12 17.6v.6"/>"#)
            }
            VerdictKind::DoNotTrust => {
                ("bad", "Do not trust", r#"<path d="M8 2h8l6 6v8l-6 6H8l-6-6V8Z"/><path d="M8.5 8.5l7 7m0-7l-7 7"/>"#)
            }
        };
        self.put(format_args!(
            "<section class=\"verdict {class}\" aria-labelledby=\"verdict\">\n<p class=\"word\"><svg viewBox=\"0 0 24 24\" \
             aria-hidden=\"true\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"2\" stroke-linecap=\"round\" \
             stroke-linejoin=\"round\">{icon}</svg><span>{word}</span></p>\n<h2 id=\"verdict\">{}</h2>\n",
            Text(&verdict.headline)
        ));
        self.list(&verdict.reasons);
        if !verdict.next.is_empty() {
            self.put(format_args!("<h3>What to do next</h3>\n"));
            self.list(&verdict.next);
        }
        self.put(format_args!("</section>\n"));
    }

    fn list(&mut self, items: &[String]) {
        if !items.is_empty() {
            self.put(format_args!("<ul>\n"));
            items.iter().for_each(|item| self.put(format_args!("<li>{}</li>\n", Text(item))));
            self.put(format_args!("</ul>\n"));
        }
    }

    fn facts(&mut self, facts: &[(String, String)]) {
        if facts.is_empty() {
            return;
        }
        self.put(format_args!("<section aria-label=\"Facts\">\n<dl>\n"));
        for (name, value) in facts {
            self.put(format_args!("<div><dt>{}</dt><dd>{}</dd></div>\n", Text(name), Text(value)));
        }
        self.put(format_args!("</dl>\n</section>\n"));
    }

    fn contents(&mut self, page: &Page) {
        let table = (!page.parameters.is_empty()).then(|| ("parameters".to_owned(), "Parameters"));
        let sections = page.sections.iter().enumerate().map(|(i, s)| (format!("section-{}", i + 1), s.title.as_str()));
        let entries: Vec<(String, &str)> = table.into_iter().chain(sections).collect();
        // A short page needs no table of contents.
        if entries.len() > 2 {
            self.put(format_args!("<nav aria-label=\"On this page\">\n<ul>\n"));
            for (id, title) in entries {
                self.put(format_args!("<li><a href=\"#{id}\">{}</a></li>\n", Text(title)));
            }
            self.put(format_args!("</ul>\n</nav>\n"));
        }
    }

    fn parameters(&mut self, rows: &[ParameterRow]) {
        if rows.is_empty() {
            return;
        }
        let own = rows.iter().take_while(|row| !row.is_internal).count();
        let (shown, folded) = rows.split_at(if own > LONG { SHOWN } else { own });
        self.put(format_args!("<section aria-labelledby=\"parameters\">\n<h2 id=\"parameters\">Parameters</h2>\n"));
        self.parameter_table(shown, "Posterior summaries");
        if !folded.is_empty() {
            let n = counted(folded.len(), "parameter");
            self.put(format_args!("<details>\n<summary>The other {n}</summary>\n"));
            self.parameter_table(folded, "Posterior summaries, continued");
            self.put(format_args!("</details>\n"));
        }
        self.put(format_args!("</section>\n"));
    }

    fn parameter_table(&mut self, rows: &[ParameterRow], label: &str) {
        let header = "<th scope=\"col\">Name</th><th scope=\"col\">Mean</th><th scope=\"col\"><abbr title=\"standard \
                      deviation\">SD</abbr></th><th scope=\"col\">5%</th><th scope=\"col\">Median</th>\
                      <th scope=\"col\">95%</th>";
        let cells = |row: &ParameterRow| {
            let numbers = [row.mean, row.sd, row.q05, row.q50, row.q95].map(|value| number(value, row.sd));
            [row.name.clone()].into_iter().chain(numbers).collect()
        };
        self.rows(header, rows.iter().map(cells), label);
    }

    fn table(&mut self, table: &Table, label: &str) {
        let header = table.columns.iter().map(|name| format!("<th scope=\"col\">{}</th>", Text(name)));
        self.rows(&header.collect::<String>(), table.rows.iter().cloned(), label);
    }

    fn rows(&mut self, header: &str, rows: impl Iterator<Item = Vec<String>>, label: &str) {
        // What scrolls must be reachable by keyboard.
        self.put(format_args!(
            "<div class=\"scroll\" role=\"region\" aria-label=\"{}\" tabindex=\"0\">\n<table>\n<thead><tr>{header}\
             </tr></thead>\n<tbody>\n",
            Text(label)
        ));
        for row in rows {
            let mut cells = row.iter();
            self.put(format_args!("<tr><th scope=\"row\">{}</th>", Text(cells.next().map_or("", |name| name))));
            cells.for_each(|cell| self.put(format_args!("<td>{}</td>", Text(cell))));
            self.put(format_args!("</tr>\n"));
        }
        self.put(format_args!("</tbody>\n</table>\n</div>\n"));
    }

    fn section(&mut self, number: usize, section: &Section) {
        let id = format!("section-{number}");
        let title = Text(&section.title);
        self.put(format_args!("<section aria-labelledby=\"{id}\">\n<h2 id=\"{id}\">{title}</h2>\n"));
        match section.figure.as_deref().and_then(|svg| Some(svg.get(svg.find("<svg")?..)?.trim_end())) {
            None => self.paragraphs(&section.text),
            Some(svg) => {
                let wide = attribute(svg, "width").and_then(|w| w.parse::<f64>().ok()).unwrap_or(0.0);
                // Shrunk further than this, labels could not be read: the card scrolls instead.
                let least = (0.75 * wide).round();
                let explained = !section.text.trim().is_empty();
                let described = if explained { format!(" aria-describedby=\"{id}-text\"") } else { String::new() };
                self.put(format_args!(
                    "<figure>\n<div class=\"figure\" role=\"region\" aria-label=\"Figure: {title}\" tabindex=\"0\">\
                     <svg role=\"img\" aria-label=\"{title}\"{described} style=\"min-width: {least}px\"{}</div>\n",
                    &svg["<svg".len()..]
                ));
                self.put(format_args!("<figcaption id=\"{id}-text\">"));
                if explained {
                    self.paragraphs(&section.text);
                } else {
                    self.put(format_args!("{title}"));
                }
                self.put(format_args!("</figcaption>\n</figure>\n"));
            }
        }
        if let Some(table) = &section.table {
            self.table(table, &format!("Numbers: {}", section.title));
        }
        self.put(format_args!("</section>\n"));
    }

    fn paragraphs(&mut self, text: &str) {
        let mut paragraph = String::new();
        for line in text.lines().chain([""]) {
            if !line.trim().is_empty() {
                paragraph.push_str(line.trim());
                paragraph.push('\n');
            } else if !paragraph.is_empty() {
                self.put(format_args!("<p>{}</p>\n", Text(paragraph.trim_end())));
                paragraph.clear();
            }
        }
    }
}

/// An attribute of a document's first element.
fn attribute<'a>(svg: &'a str, name: &str) -> Option<&'a str> {
    let tag = svg.split('>').next()?;
    let value = tag.split_once(&format!(" {name}=\""))?.1;
    value.split('"').next()
}

/// A number with three digits of its spread, and a true minus sign; a dash if there is none.
fn number(x: f64, spread: f64) -> String {
    if x.is_nan() {
        return "–".to_owned();
    }
    if !x.is_finite() {
        return x.to_string().replace('-', "−");
    }
    let spread = if spread.is_finite() && spread > 0.0 { spread } else { x.abs() };
    let digits = if spread > 0.0 { 2 - spread.log10().floor() as i32 } else { 0 };
    let text =
        if digits > 7 || x.abs() >= 1e7 { format!("{x:.3e}") } else { format!("{x:.*}", digits.max(0) as usize) };
    // Rounding can leave a minus before nothing but zeros.
    let zero = text.starts_with('-') && !text.contains(|c: char| c.is_ascii_digit() && c != '0');
    text[usize::from(zero)..].replace('-', "−")
}

#[cfg(test)]
#[path = "page_tests.rs"]
mod tests;
