//! Tables that are redrawn in place on a terminal.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use crate::output;

/// How often a table is printed where it cannot be redrawn, such as a log.
const PLAIN_EVERY: Duration = Duration::from_secs(5);

/// Lines with their columns under each other; numbers (all columns but the first two) stand
/// right.
pub(super) fn render(head: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        let widest = cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
        widest.max(head[column].len())
    };
    let widths: Vec<_> = (0..head.len()).map(width).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded = cells
            .zip(&widths)
            .enumerate()
            .map(|(column, (cell, width))| {
                if column < 2 {
                    format!("{cell:<width$}")
                } else {
                    format!("{cell:>width$}")
                }
            });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    let mut text = line(&mut head.iter().copied());
    for row in rows {
        text += &line(&mut row.iter().map(String::as_str));
    }
    text
}

/// A table that shows the latest state.
#[derive(Debug)]
pub(super) struct Live {
    terminal: bool,
    drawn: usize,
    last: Option<Instant>,
}

impl Live {
    /// Nothing drawn yet.
    pub(super) fn new() -> Self {
        Self {
            terminal: std::io::stdout().is_terminal(),
            drawn: 0,
            last: None,
        }
    }

    /// Draws the text over what was drawn before; on anything but a terminal only now and then.
    pub(super) fn show(&mut self, text: &str) {
        if !self.terminal {
            if self.last.is_none_or(|last| last.elapsed() >= PLAIN_EVERY) {
                self.last = Some(Instant::now());
                output::text(text);
            }
            return;
        }
        // Up over the old lines and erase to the end of the screen (ECMA-48 CUU and ED); without
        // automatic wrap meanwhile (DECAWM), as a wrapped line would count twice.
        let up = match self.drawn {
            0 => String::new(),
            lines => format!("\x1b[{lines}A\x1b[J"),
        };
        output::text(&format!("{up}\x1b[?7l{text}\x1b[?7h"));
        self.drawn = text.lines().count();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_under_each_other() {
        let rows = [vec![
            "a/b".to_owned(),
            "H264".to_owned(),
            "1234567".to_owned(),
        ]];
        let text = render(&["TOPIC", "CODEC", "LOST"], &rows);
        assert_eq!(text, "TOPIC  CODEC     LOST\na/b    H264   1234567\n");
    }
}
