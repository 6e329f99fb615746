//! Tests of escaping, of numbers, and of what the page is made of. `tests/report.rs` opens one in a browser.

use super::*;

fn page() -> Page {
    let verdict = Verdict { kind: VerdictKind::Good, headline: String::new(), reasons: vec![], next: vec![] };
    let verdict = Some(verdict);
    Page { title: String::new(), verdict, facts: vec![], parameters: vec![], sections: vec![], footer: String::new() }
}

fn row(name: &str) -> ParameterRow {
    ParameterRow { name: name.to_owned(), is_internal: false, mean: -1.0, sd: 0.5, q05: -2.0, q50: -1.0, q95: 0.0 }
}

#[test]
fn no_text_becomes_markup() {
    let evil = || "\"'><script>alert(1)</script>&amp;".to_owned();
    let verdict = Verdict { kind: VerdictKind::Reweight, headline: evil(), reasons: vec![evil()], next: vec![evil()] };
    let verdict = Some(verdict);
    let table = Some(Table { columns: vec![evil(), evil()], rows: vec![vec![evil(), evil()]] });
    let sections = vec![
        Section { title: evil(), text: evil(), figure: Some("<svg width=\"10\"></svg>".to_owned()), table: None },
        Section { title: evil(), text: evil(), figure: None, table },
    ];
    let parameters = vec![row(&evil())];
    let page = Page { title: evil(), verdict, facts: vec![(evil(), evil())], parameters, sections, footer: evil() };
    let html = render(&page);
    assert!(!html.contains("<script") && !html.contains("&amp;amp;script"));
    let escaped = "&quot;&#39;&gt;&lt;script&gt;alert(1)&lt;/script&gt;&amp;amp;";
    // Title twice, verdict, fact, parameter, footer; sections: in the contents, heading, text, and the figure's labels,
    // or the table's label, names and cells.
    assert_eq!(html.matches(escaped).count(), 2 + 3 + 2 + 1 + 1 + (3 + 2) + (3 + 5));
    assert_eq!(html.matches("alert(1)").count(), html.matches(escaped).count());
}

#[test]
fn nothing_comes_from_elsewhere() {
    let html = render(&page());
    for part in ["http:", "https:", "src=", "@import", "url(", "<link", "<script"] {
        assert!(!html.contains(part), "{part}");
    }
    assert!(html.contains("default-src 'none'"));
    assert!(html.starts_with("<!doctype html>\n<html lang=\"en\">"));
}

#[test]
fn every_verdict_has_its_word_and_shape() {
    let with = |kind| render(&Page { verdict: page().verdict.map(|v| Verdict { kind, ..v }), ..page() });
    for (kind, word) in [
        (VerdictKind::Good, "<span>Good</span>"),
        (VerdictKind::Reweight, "<span>Reweight</span>"),
        (VerdictKind::DoNotTrust, "<span>Do not trust</span>"),
    ] {
        assert!(with(kind).contains(word));
    }
}

#[test]
fn long_tables_are_folded() {
    let with = |n: usize| {
        let parameters = (0..n).map(|i| row(&format!("theta[{i}]"))).collect();
        render(&Page { parameters, ..page() })
    };
    assert!(!with(24).contains("<details>"));
    let long = with(25);
    assert!(long.contains("<summary>The other 13 parameters</summary>"));
    assert_eq!(long.matches("<th scope=\"row\">").count(), 25);
    let parameters = vec![row("beta_x"), ParameterRow { is_internal: true, ..row("beta_std") }];
    let folded = render(&Page { parameters, ..page() });
    let (shown, rest) = folded.split_once("<summary>The other 1 parameter</summary>").expect("folded");
    assert!(shown.contains("beta_x") && !shown.contains("beta_std") && rest.contains("beta_std"));
}

#[test]
fn figures_are_labelled_and_explained() {
    let svg = crate::plot::Figure::new("").panel(crate::plot::Panel::new("p")).to_svg();
    let with = |text: &str, figure| {
        render(&Page {
            sections: vec![Section { title: "Trace".into(), text: text.into(), figure, table: None }],
            ..page()
        })
    };
    let html = with("How to\nread it.\n\nMore.", Some(svg.clone()));
    assert!(html.contains("<svg role=\"img\" aria-label=\"Trace\" aria-describedby=\"section-1-text\""));
    assert!(html.contains("<figcaption id=\"section-1-text\"><p>How to\nread it.</p>\n<p>More.</p>\n</figcaption>"));
    assert!(with("", Some(svg)).contains("<figcaption id=\"section-1-text\">Trace</figcaption>"));
    assert!(!with("Text.", Some("not a figure".into())).contains("<figure>"));
    assert!(!with("Text.", None).contains("<figure>"));
}

#[test]
fn numbers_have_the_digits_that_their_spread_supports() {
    assert_eq!(number(-1.23456, 0.5), "−1.235");
    assert_eq!(number(123.456, 25.0), "123.5");
    assert_eq!(number(123456.7, 2500.0), "123457");
    assert_eq!(number(0.000123456, 1e-9), "1.235e−4");
    assert_eq!(number(-0.0001, 0.5), "0.000");
    assert_eq!(number(5.0, 0.0), "5.00");
    assert_eq!(number(0.0, 0.0), "0");
    assert_eq!(number(f64::NAN, 1.0), "–");
    assert_eq!(number(f64::NEG_INFINITY, 1.0), "−inf");
    assert_eq!(number(3.0, f64::NAN), "3.00");
}
