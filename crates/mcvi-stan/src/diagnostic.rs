//! Mistakes in programs and data, and their rendering with the lines they concern.

use crate::source::{Sources, Span};
use ariadne::{CharSet, Config, IndexType, Label, Report, ReportKind};
use std::fmt;

/// A mistake: what is wrong, where, and what to write instead.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnostic {
    /// What is wrong, in a sentence.
    pub message: String,
    /// Where.
    pub span: Span,
    /// A remark at the place, such as what was expected there.
    pub label: String,
    /// Other places that matter, each with a remark.
    pub related: Vec<(Span, String)>,
    /// What to write, or to try.
    pub help: Option<String>,
}

impl Diagnostic {
    /// A mistake at a place.
    pub fn new(span: Span, message: impl Into<String>) -> Self {
        Diagnostic { message: message.into(), span, label: String::new(), related: vec![], help: None }
    }

    /// With a remark at the place.
    pub fn label(self, label: impl Into<String>) -> Self {
        Diagnostic { label: label.into(), ..self }
    }

    /// With advice.
    pub fn help(self, help: impl Into<String>) -> Self {
        Diagnostic { help: Some(help.into()), ..self }
    }

    /// Whether it is that something is not supported, which no data or parameters change.
    pub fn is_unsupported(&self) -> bool {
        self.message.contains("not supported")
    }

    /// With another place that matters.
    pub fn related(mut self, span: Span, remark: impl Into<String>) -> Self {
        self.related.push((span, remark.into()));
        self
    }
}

/// Mistakes with the texts they are in; displayed as compilers do.
#[derive(Clone, Debug)]
pub struct Diagnostics {
    /// The texts.
    pub sources: Sources,
    /// The mistakes, in the order found.
    pub list: Vec<Diagnostic>,
}

/// A place as ariadne wants it: a file and a range of bytes.
type Place = (String, std::ops::Range<usize>);

impl Diagnostics {
    fn place(&self, span: Span) -> Place {
        let length = self.sources.files.get(span.file as usize).map_or(0, |f| f.text.len());
        let (start, end) = (span.start as usize, span.end as usize);
        (self.sources.name(span).to_owned(), start.min(length)..end.min(length))
    }

    /// The text of all reports, with or without colours.
    pub fn render(&self, color: bool) -> String {
        let config = Config::new().with_color(color).with_index_type(IndexType::Byte).with_char_set(CharSet::Ascii);
        let texts = self.sources.files.iter().map(|f| (f.name.clone(), f.text.clone()));
        let mut cache = ariadne::sources(texts);
        let mut out = Vec::new();
        for d in &self.list {
            let label = Label::new(self.place(d.span)).with_message(if d.label.is_empty() { "here" } else { &d.label });
            let mut report = Report::build(ReportKind::Error, self.place(d.span)).with_config(config);
            report = report.with_message(&d.message).with_label(label);
            for (span, remark) in &d.related {
                report = report.with_label(Label::new(self.place(*span)).with_message(remark));
            }
            if let Some(help) = &d.help {
                report = report.with_help(help);
            }
            if report.finish().write(&mut cache, &mut out).is_err() {
                out.extend(d.message.as_bytes());
            }
        }
        String::from_utf8_lossy(&out).into_owned()
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.render(false).trim_end())
    }
}

impl std::error::Error for Diagnostics {}
