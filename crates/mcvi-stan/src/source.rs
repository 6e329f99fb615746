//! The texts of a program: the file itself and what it includes.

/// A piece of the text of one file, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Span {
    /// The file, as a number in [`Sources`].
    pub file: u32,
    /// The first byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// From the start of this span to the end of another of the same file; of another file, just this one.
    pub fn to(self, other: Span) -> Span {
        if self.file == other.file && other.end >= self.start { Span { end: other.end, ..self } } else { self }
    }
}

/// A file of a program.
#[derive(Clone, Debug)]
pub(crate) struct File {
    pub name: String,
    pub text: String,
}

/// All files of a program: the first is the program itself, the others are included.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    pub(crate) files: Vec<File>,
}

impl Sources {
    pub(crate) fn add(&mut self, name: &str, text: String) -> u32 {
        self.files.push(File { name: name.to_owned(), text });
        self.files.len() as u32 - 1
    }

    /// The text of a span.
    pub fn text(&self, span: Span) -> &str {
        let text = self.files.get(span.file as usize).map_or("", |f| f.text.as_str());
        text.get(span.start as usize..span.end as usize).unwrap_or("")
    }

    /// The line of a span's start, counted from 1.
    pub fn line(&self, span: Span) -> usize {
        let text = self.files.get(span.file as usize).map_or("", |f| f.text.as_str());
        let before = text.as_bytes().get(..span.start as usize).unwrap_or(text.as_bytes());
        1 + before.iter().filter(|&&b| b == b'\n').count()
    }

    /// The name of a span's file.
    pub fn name(&self, span: Span) -> &str {
        self.files.get(span.file as usize).map_or("", |f| f.name.as_str())
    }
}

/// Finds the text of an included file by the name written in the program.
pub type Includes<'a> = dyn Fn(&str) -> Option<String> + 'a;
