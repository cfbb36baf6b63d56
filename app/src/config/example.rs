//! The commented example that ships with the program.

/// What `sangam config example` prints.
pub(crate) const EXAMPLE: &str = include_str!("../../sangam.example.toml");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, keys};

    #[test]
    fn the_example_equals_the_defaults() {
        let example: Config = toml::from_str(EXAMPLE).unwrap();
        assert_eq!(example, Config::default());
    }

    #[test]
    fn the_example_names_every_key() {
        for (key, _) in keys::KEYS {
            let word = key.rsplit('.').next().unwrap();
            let named = EXAMPLE.lines().any(|line| {
                let line = line.trim_start_matches(['#', ' ']);
                line.split(['=', ' ']).next() == Some(word) || line.contains(&format!("{word} ="))
            });
            assert!(named, "{key} is missing in the example");
        }
    }
}
