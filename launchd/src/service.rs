//! What is to be run as a service.

use crate::error::ServiceError;
use std::path::{Path, PathBuf};

/// The daemon as a service: its program, arguments and home. Everything in it is checked to fit both definitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    program: String,
    arguments: Vec<String>,
    home: String,
    home_in_environment: bool,
}

impl Service {
    /// The daemon `program` with its state in `home`; both absolute.
    ///
    /// # Errors
    /// A path is relative, no UTF-8, or holds control characters.
    pub fn new(program: &Path, home: &Path) -> Result<Service, ServiceError> {
        Ok(Service {
            program: absolute("the program", program)?,
            arguments: Vec::new(),
            home: absolute("the home", home)?,
            home_in_environment: false,
        })
    }

    /// With these arguments for the program. Never give it a secret: anyone can read the arguments of a process.
    ///
    /// # Errors
    /// An argument holds control characters.
    pub fn with_arguments(mut self, arguments: Vec<String>) -> Result<Service, ServiceError> {
        for argument in &arguments {
            check("the argument", argument)?;
        }
        self.arguments = arguments;
        Ok(self)
    }

    /// Hands the home on in `HANDS_HOME`: for a home that is not the platform's default place.
    #[must_use]
    pub fn with_home_in_environment(mut self) -> Service {
        self.home_in_environment = true;
        self
    }

    /// The program.
    pub fn program(&self) -> &str {
        &self.program
    }

    /// Its arguments, without the program.
    pub fn arguments(&self) -> &[String] {
        &self.arguments
    }

    /// The home.
    pub fn home(&self) -> &Path {
        Path::new(&self.home)
    }

    /// The folder of the logs.
    pub fn logs(&self) -> PathBuf {
        self.home().join("logs")
    }

    /// The value of `HANDS_HOME`, where it is to be set.
    pub(crate) fn home_variable(&self) -> Option<&str> {
        self.home_in_environment.then_some(self.home.as_str())
    }
}

fn absolute(what: &'static str, path: &Path) -> Result<String, ServiceError> {
    let value = || path.to_string_lossy().into_owned();
    let text = path.to_str().ok_or_else(|| ServiceError::Text {
        what,
        value: value(),
        reason: "it is not UTF-8, which the managers' files are",
        hint: "choose a path with a UTF-8 name",
    })?;
    if !path.is_absolute() {
        return Err(ServiceError::Text {
            what,
            value: value(),
            reason: "it is relative, and a service starts in no folder of yours",
            hint: "give the absolute path",
        });
    }
    check(what, text)?;
    Ok(text.to_owned())
}

/// Neither format can hold control characters safely: XML not at all, a unit's lines end at some of them.
fn check(what: &'static str, text: &str) -> Result<(), ServiceError> {
    let wrong = |symbol: char| symbol.is_control() || matches!(symbol, '\u{FFFE}' | '\u{FFFF}');
    if !text.contains(wrong) {
        return Ok(());
    }
    Err(ServiceError::Text {
        what,
        value: text.to_owned(),
        reason: "it holds a control character",
        hint: "choose a name without one",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_paths_and_control_characters_are_refused_in_words() {
        let error = |program: &str, home: &str| {
            let made = Service::new(Path::new(program), Path::new(home));
            made.unwrap_err().to_string()
        };
        assert!(error("handsd", "/h").contains("the program \"handsd\""));
        assert!(error("/b/handsd", "h").contains("the home \"h\""));
        assert!(error("/b/hands\nd", "/h").contains("control character"));
        assert!(error("/b/handsd", "/h\u{1b}[2J").contains("control character"));
        assert!(!error("/b/handsd", "/h\u{1b}[2J").contains('\u{1b}'));
        let service = Service::new(Path::new("/b/handsd"), Path::new("/h")).unwrap();
        assert!(service.with_arguments(vec!["a\0b".to_owned()]).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn a_path_that_is_not_utf8_is_refused() {
        use std::ffi::OsStr;
        use std::os::unix::ffi::OsStrExt as _;
        let path = Path::new(OsStr::from_bytes(b"/b/\xff/handsd"));
        let error = Service::new(path, Path::new("/h")).unwrap_err();
        assert!(error.to_string().contains("UTF-8"), "{error}");
    }
}
