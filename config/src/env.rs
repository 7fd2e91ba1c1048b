//! A snapshot of environment variables.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// Environment variables as they were at one moment.
///
/// Everything in this crate reads the snapshot, never the process, so that tests run in parallel.
#[derive(Debug, Clone, Default)]
pub struct Env {
    vars: BTreeMap<String, String>,
    /// Names whose value is not UTF-8. They matter only if they are ours.
    unreadable: Vec<String>,
}

impl Env {
    /// The variables of this process.
    pub fn from_process() -> Env {
        let mut env = Env::default();
        for (name, value) in std::env::vars_os() {
            let Ok(name) = name.into_string() else {
                continue;
            };
            match value.into_string() {
                Ok(value) => {
                    env.vars.insert(name, value);
                }
                Err(_) => env.unreadable.push(name),
            }
        }
        env
    }

    /// Exactly these variables.
    pub fn of(vars: &[(&str, &str)]) -> Env {
        let vars = vars
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        Env {
            vars,
            unreadable: Vec::new(),
        }
    }

    /// The value of a variable. An empty value counts as unset.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.vars
            .get(name)
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    }

    /// The person's home folder: `HOME`, else what the user database says.
    pub fn user_home(&self) -> Option<PathBuf> {
        match self.get("HOME") {
            Some(home) if home.starts_with('/') => Some(PathBuf::from(home)),
            _ => directories::BaseDirs::new().map(|dirs| dirs.home_dir().to_path_buf()),
        }
    }

    /// Names that begin with `prefix`, with their values; empty values are left out.
    pub fn with_prefix<'a>(
        &'a self,
        prefix: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a str)> + 'a {
        self.vars
            .iter()
            .filter(move |(name, value)| name.starts_with(prefix) && !value.is_empty())
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Names that begin with `prefix` whose value is not UTF-8.
    pub(crate) fn unreadable<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a str> + 'a {
        self.unreadable
            .iter()
            .map(String::as_str)
            .filter(move |name| name.starts_with(prefix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_value_is_unset() {
        let env = Env::of(&[("HANDS_HOME", ""), ("HOME", "/home/ann")]);
        assert_eq!(env.get("HANDS_HOME"), None);
        assert_eq!(env.with_prefix("HANDS_").count(), 0);
        assert_eq!(env.user_home(), Some(PathBuf::from("/home/ann")));
    }
}
