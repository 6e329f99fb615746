//! The data sets of `mcvi fit --each`: the files of a folder, or the rows of a table by the levels of a column.

use crate::many::file_name;
use crate::mistake::Mistake;
use anyhow::{Context, Result};
use csv::{ReaderBuilder, StringRecord, Trim, WriterBuilder};
use mcvi::disk;
use mcvi::regression::nearest;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A data set, and the name of its results.
pub struct DataSet {
    pub name: String,
    content: Content,
}

enum Content {
    File(PathBuf),
    /// Rows of a table, as CSV.
    Rows(Vec<u8>),
}

impl DataSet {
    /// A file with the data; rows of a table are written to `apart` for that.
    pub fn file(&self, apart: &Path) -> Result<PathBuf> {
        match &self.content {
            Content::File(path) => Ok(path.clone()),
            Content::Rows(text) => {
                let write =
                    || disk::create_dir_all(apart.parent()?).and_then(|()| disk::atomic_write(apart, text)).into();
                let written: Option<std::io::Result<()>> = write();
                written.transpose().with_context(|| format!("cannot write {}", apart.display()))?;
                Ok(apart.to_owned())
            }
        }
    }

    /// Whether the data were taken out of a table.
    pub fn is_apart(&self) -> bool {
        matches!(self.content, Content::Rows(_))
    }

    /// A checksum of the data.
    pub fn checksum(&self) -> Result<String> {
        let digest = match &self.content {
            Content::File(path) => Sha256::digest(std::fs::read(path).map_err(|e| unreadable(path, &e))?),
            Content::Rows(text) => Sha256::digest(text),
        };
        Ok(digest.iter().map(|b| format!("{b:02x}")).collect())
    }
}

fn unreadable(path: &Path, error: &dyn std::fmt::Display) -> Mistake {
    Mistake(format!("{}: {error}", path.display()))
}

/// The files of a folder whose names end so, in the order of their names.
pub fn files(folder: &Path, extensions: &[&str]) -> Result<Vec<DataSet>> {
    let entries = std::fs::read_dir(folder).map_err(|e| {
        let why = "give a folder with a file for each data set, or a table with --data and the name of a column of it";
        Mistake(format!("--each {}: {e}; {why}", folder.display()))
    })?;
    let mut sets = BTreeMap::new();
    for entry in entries {
        let path = entry.map_err(|e| unreadable(folder, &e))?.path();
        let whole = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let stem = extensions.iter().find_map(|extension| whole.strip_suffix(extension));
        let Some(stem) = stem.filter(|stem| !stem.is_empty() && !stem.starts_with('.') && path.is_file()) else {
            continue;
        };
        let name = file_name(stem);
        let set = DataSet { name: name.clone(), content: Content::File(path.clone()) };
        if sets.insert(name, set).is_some() {
            return Err(Mistake(format!(
                "{} and another file would have the same name in the results",
                path.display()
            ))
            .into());
        }
    }
    if sets.is_empty() {
        return Err(Mistake(format!("{} has no file *{}", folder.display(), extensions.join(", *"))).into());
    }
    Ok(sets.into_values().collect())
}

/// The rows of a table by the levels of a column, which is left out.
pub fn levels(table: &Path, column: &str) -> Result<Vec<DataSet>> {
    let bytes = std::fs::read(table).map_err(|e| unreadable(table, &e))?;
    parse_levels(&bytes, column).map_err(|why| Mistake(format!("{}: {why}", table.display())).into())
}

fn parse_levels(bytes: &[u8], column: &str) -> Result<Vec<DataSet>, String> {
    let mut reader = ReaderBuilder::new().trim(Trim::All).from_reader(bytes);
    let header = reader.headers().map_err(|e| e.to_string())?.clone();
    let Some(at) = header.iter().position(|name| name == column) else {
        let hint = nearest(column, header.iter()).map_or_else(String::new, |n| format!("; did you mean {n}?"));
        return Err(format!("has no column `{column}`{hint}"));
    };
    let without = |record: &StringRecord| -> StringRecord {
        record.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, field)| field).collect()
    };
    let mut levels: BTreeMap<String, csv::Writer<Vec<u8>>> = BTreeMap::new();
    for record in reader.records() {
        let record = record.map_err(|e| e.to_string())?;
        let level = &record[at];
        if level.is_empty() {
            let line = record.position().map_or(0, csv::Position::line);
            return Err(format!("line {line} has no value of `{column}`"));
        }
        let level = match levels.get_mut(level) {
            Some(level) => level,
            None => {
                let mut writer = WriterBuilder::new().from_writer(vec![]);
                writer.write_record(&without(&header)).map_err(|e| e.to_string())?;
                levels.entry(level.to_owned()).or_insert(writer)
            }
        };
        level.write_record(&without(&record)).map_err(|e| e.to_string())?;
    }
    if levels.is_empty() {
        return Err("has no rows".to_owned());
    }
    let set = |(name, writer): (String, csv::Writer<Vec<u8>>)| {
        let rows = writer.into_inner().map_err(|e| e.to_string())?;
        Ok(DataSet { name: file_name(&name), content: Content::Rows(rows) })
    };
    levels.into_iter().map(set).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_go_to_their_levels_without_the_column() {
        let table = b"y,\"the, region\",x\n1, north/west ,2\n3,south,\"a,b\"\n5,north/west,6\n";
        let sets = parse_levels(table, "the, region").expect("levels");
        let text = |set: &DataSet| match &set.content {
            Content::Rows(rows) => String::from_utf8(rows.clone()).expect("text"),
            Content::File(_) => panic!("rows"),
        };
        let names: Vec<(&str, String)> = sets.iter().map(|set| (set.name.as_str(), text(set))).collect();
        let expected = [("north%2Fwest", "y,x\n1,2\n5,6\n".to_owned()), ("south", "y,x\n3,\"a,b\"\n".to_owned())];
        assert_eq!(names, expected);
        let error = |column| parse_levels(table, column).err().expect("an error");
        assert_eq!(error("the, regoin"), "has no column `the, regoin`; did you mean the, region?");
        assert_eq!(error("z"), "has no column `z`");
        assert_eq!(parse_levels(b"y,g\n1,a\n2,\n", "g").err().as_deref(), Some("line 3 has no value of `g`"));
    }
}
