//! Where the rows of a file start: nearly always one line after the other.

/// The line where each row starts, counted from 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Lines {
    rows: usize,
    /// Rows that do not start a line after the one before them, and where they do.
    jumps: Vec<(usize, usize)>,
}

impl Lines {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Add a row that starts at this line.
    pub fn push(&mut self, line: usize) {
        if self.jumps.last().is_none_or(|(row, at)| at + (self.rows - row) != line) {
            self.jumps.push((self.rows, line));
        }
        self.rows += 1;
    }

    /// The line where a row starts, if it is known.
    pub fn of(&self, row: usize) -> Option<usize> {
        let after = self.jumps.partition_point(|(at, _)| *at <= row);
        let (first, line) = self.jumps[..after].last().filter(|_| row < self.rows)?;
        Some(line + (row - first))
    }

    /// Those of some of the rows.
    pub fn rows(&self, kept: &[usize]) -> Lines {
        let mut lines = Lines::default();
        kept.iter().filter_map(|row| self.of(*row)).for_each(|line| lines.push(line));
        lines
    }
}
