//! File and variables to a [`Config`], with the place of everything that is wrong.

use std::fmt;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};
use toml::{Spanned, Table, Value};

use super::keys::{self, Kind};
use super::{Config, check};

/// What is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// `file:line`, the name of a variable, or empty.
    pub(crate) place: String,
    /// What is wrong and what to write instead.
    pub(crate) message: String,
}

/// Everything that is wrong with a configuration; at least one problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfigError(pub(crate) Vec<Problem>);

/// Reads `file` over `base` and the `SANGAM_*` of `variables` over both.
///
/// # Errors
/// All problems of the first stage that has any: syntax, unknown keys, values, variables, sense.
pub(crate) fn load(
    file: Option<&Path>,
    variables: impl Iterator<Item = (String, String)>,
    base: &Config,
) -> Result<Config, ConfigError> {
    let source = Source::read(file)?;
    let typed: Table = source.typed()?;
    let mut table = Table::try_from(base).map_err(|error| source.whole(&error.to_string()))?;
    merge(&mut table, typed);
    let config = apply_variables(table, variables)?;
    let wrong = check(&config);
    if wrong.is_empty() {
        return Ok(config);
    }
    let place = |path: &str| source.place_of(path).unwrap_or_else(|| path.to_owned());
    let problems = wrong.into_iter().map(|(path, message)| Problem {
        place: place(&path),
        message,
    });
    Err(ConfigError(problems.collect()))
}

/// The text of a file and its name.
struct Source {
    path: PathBuf,
    text: String,
}

impl Source {
    fn read(file: Option<&Path>) -> Result<Self, ConfigError> {
        let Some(path) = file else {
            return Ok(Self {
                path: PathBuf::new(),
                text: String::new(),
            });
        };
        let text = fs::read_to_string(path).map_err(|error| {
            let message = format!("cannot be read: {error}; see `sangam config example`");
            ConfigError(vec![Problem {
                place: path.display().to_string(),
                message,
            }])
        })?;
        Ok(Self {
            path: path.to_owned(),
            text,
        })
    }

    /// The file's table, once all its keys are known and all its values fit.
    fn typed(&self) -> Result<Table, ConfigError> {
        let table = DeTable::parse(&self.text).map_err(|error| self.toml(&error))?;
        let mut unknown = Vec::new();
        self.unknown_keys(table.get_ref(), "", &mut unknown);
        if !unknown.is_empty() {
            return Err(ConfigError(unknown));
        }
        // Only to find wrong values with their place; merging works on the untyped table.
        toml::from_str::<Config>(&self.text).map_err(|error| self.toml(&error))?;
        toml::from_str(&self.text).map_err(|error| self.toml(&error))
    }

    fn unknown_keys(&self, table: &DeTable<'_>, section: &str, problems: &mut Vec<Problem>) {
        for (key, value) in table {
            let path = join(section, key.get_ref());
            if keys::is_known(&path) {
                for inner in tables(value.get_ref()) {
                    self.unknown_keys(inner, &path, problems);
                }
                continue;
            }
            let advice = keys::nearest(&path).map_or_else(
                || format!("known here: {}", keys::children(section).join(", ")),
                |near| format!("did you mean {near:?}?"),
            );
            let message = format!("unknown key {path:?}; {advice}");
            problems.push(Problem {
                place: self.line(key.span()),
                message,
            });
        }
    }

    /// Where the value at `path` stands, such as `leg[1].send`; the nearest part above it that
    /// exists otherwise.
    fn place_of(&self, path: &str) -> Option<String> {
        let table = DeTable::parse(&self.text).ok()?;
        let mut value: Option<&Spanned<DeValue<'_>>> = None;
        for part in path.split(['.', '[', ']']).filter(|part| !part.is_empty()) {
            let next = match (value.map(Spanned::get_ref), part.parse::<usize>()) {
                (None, _) => table.get_ref().get(part),
                (Some(DeValue::Array(array)), Ok(index)) => array.get(index),
                (Some(DeValue::Table(table)), _) => table.get(part),
                _ => None,
            };
            let Some(next) = next else { break };
            value = Some(next);
        }
        value.map(|value| self.line(value.span()))
    }

    fn line(&self, span: Range<usize>) -> String {
        let before = self.text.get(..span.start).unwrap_or(&self.text);
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        format!("{}:{line}", self.path.display())
    }

    fn toml(&self, error: &toml::de::Error) -> ConfigError {
        let place = error
            .span()
            .map_or_else(|| self.path.display().to_string(), |s| self.line(s));
        ConfigError(vec![Problem {
            place,
            message: error.message().to_owned(),
        }])
    }

    fn whole(&self, message: &str) -> ConfigError {
        let place = self.path.display().to_string();
        ConfigError(vec![Problem {
            place,
            message: message.to_owned(),
        }])
    }
}

/// The tables directly in a value: itself, or those of an array.
fn tables<'a, 'i>(value: &'a DeValue<'i>) -> Vec<&'a DeTable<'i>> {
    match value {
        DeValue::Table(table) => vec![table],
        DeValue::Array(array) => array
            .iter()
            .flat_map(|item| tables(item.get_ref()))
            .collect(),
        _ => Vec::new(),
    }
}

fn join(section: &str, key: &str) -> String {
    if section.is_empty() {
        key.to_owned()
    } else {
        format!("{section}.{key}")
    }
}

/// Puts `over` over `table`, section by section; arrays are replaced whole.
fn merge(table: &mut Table, over: Table) {
    for (key, value) in over {
        match (table.get_mut(&key), value) {
            (Some(Value::Table(inner)), Value::Table(over)) => merge(inner, over),
            (_, value) => {
                table.insert(key, value);
            }
        }
    }
}

fn apply_variables(
    mut table: Table,
    variables: impl Iterator<Item = (String, String)>,
) -> Result<Config, ConfigError> {
    let mut problems = Vec::new();
    let mut ours: Vec<_> = variables
        .filter(|(name, _)| name.starts_with(keys::PREFIX))
        .collect();
    ours.sort();
    for (name, text) in ours {
        if let Err(message) = apply_variable(&mut table, &name, &text) {
            problems.push(Problem {
                place: name,
                message,
            });
        }
    }
    if !problems.is_empty() {
        return Err(ConfigError(problems));
    }
    let place = String::new();
    let wrong = |error: toml::de::Error| Problem {
        place,
        message: error.message().to_owned(),
    };
    table
        .try_into()
        .map_err(|error| ConfigError(vec![wrong(error)]))
}

fn apply_variable(table: &mut Table, name: &str, text: &str) -> Result<(), String> {
    if keys::is_option(name) {
        return Ok(());
    }
    let (key, kind) = keys::of_variable(name).ok_or_else(|| {
        let near = keys::nearest_variable(name);
        let advice = near.map_or_else(
            || "see `sangam config example` for what there is".to_owned(),
            |near| format!("did you mean {near}?"),
        );
        format!("unknown variable; {advice}")
    })?;
    let (section, word) = key.split_once('.').unwrap_or(("", key));
    let value = value(kind, word, text)?;
    let mut changed = table.clone();
    if kind == Kind::Tables {
        changed.insert(section.to_owned(), value);
    } else {
        let inner = changed
            .entry(section)
            .or_insert_with(|| Value::Table(Table::new()));
        if let Value::Table(inner) = inner {
            inner.insert(word.to_owned(), value);
        }
    }
    // Tried at once, so that the message names this variable.
    let tried: Result<Config, _> = changed.clone().try_into();
    tried.map_err(|error| error.message().to_owned())?;
    *table = changed;
    Ok(())
}

fn value(kind: Kind, word: &str, text: &str) -> Result<Value, String> {
    let words = || {
        text.split(',')
            .map(str::trim)
            .filter(|word| !word.is_empty())
    };
    Ok(match kind {
        Kind::Text | Kind::File => Value::String(text.to_owned()),
        Kind::Number => {
            let number = text.trim().parse();
            Value::Integer(number.map_err(|_| format!("{text:?} is no whole number"))?)
        }
        Kind::Switch => {
            let switch = text.trim().parse();
            Value::Boolean(switch.map_err(|_| format!("{text:?} is neither true nor false"))?)
        }
        Kind::Texts => Value::Array(words().map(|text| Value::String(text.to_owned())).collect()),
        Kind::Tables => {
            let one = |text: &str| {
                Value::Table(Table::from_iter([(
                    word.to_owned(),
                    Value::String(text.to_owned()),
                )]))
            };
            Value::Array(words().map(one).collect())
        }
    })
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.place.is_empty() {
            return f.write_str(&self.message);
        }
        write!(f, "{}: {}", self.place, self.message)
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.0.iter().enumerate() {
            write!(f, "{}{problem}", if i == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;
