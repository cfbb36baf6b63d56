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
    fn what_is_commented_out_is_valid_too() {
        let key = |line: &&str| line.starts_with('[') || line.contains(" = ");
        let uncomment = |line: &'static str| {
            let bare = line.strip_prefix("# ").filter(key);
            bare.unwrap_or(line)
        };
        let text: Vec<_> = EXAMPLE.lines().map(uncomment).collect();
        let config: Config = toml::from_str(&text.join("\n")).unwrap();
        assert_eq!((config.legs.len(), config.neighbours.len()), (2, 1));
        assert_eq!(crate::config::check(&config), []);
    }

    #[test]
    fn the_example_names_every_key() {
        for (key, _) in keys::KEYS {
            let word = key.rsplit('.').next().unwrap();
            let named = EXAMPLE.lines().any(|line| {
                let line = line.trim_start_matches("# ");
                // Tables may stand in one line.
                let mut parts = line.split(['{', ',']).map(str::trim_start);
                parts.any(|part| part.starts_with(&format!("{word} = ")))
                    || line == format!("[{key}]")
            });
            assert!(named, "{key} is missing in the example");
        }
    }
}
