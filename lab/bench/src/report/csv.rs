//! Rows as comma-separated values, ours and the paper's in one table.

use super::row::{Row, columns};

/// A header line and one line per row; the first column says whose row it is.
pub(super) fn table(ours: &[Row], paper: &[Row]) -> String {
    let names = columns(&[ours, paper].concat());
    let mut text = format!("whose,{}\n", names.join(","));
    for (whose, rows) in [("ours", ours), ("paper", paper)] {
        for row in rows {
            text.push_str(whose);
            for name in &names {
                text.push(',');
                text.push_str(
                    &row.get(name)
                        .map_or_else(String::new, |v| quoted(&v.to_text())),
                );
            }
            text.push('\n');
        }
    }
    text
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_and_quotes_do_not_break_the_table() {
        let ours = [Row::default().with("users", 12_u64)];
        let paper = [Row::default()
            .with("users", 12_u64)
            .with("source", "Wu, \"Table\" 1")];
        assert_eq!(
            table(&ours, &paper),
            "whose,users,source\nours,12,\npaper,12,\"Wu, \"\"Table\"\" 1\"\n"
        );
    }
}
