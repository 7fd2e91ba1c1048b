//! Paths in JSON. A name need not be UTF-8: one that is not travels as its bytes, so that no file
//! of the person's can make a plan impossible to write down.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Text(String),
    Bytes { base64: String },
}

impl Written {
    fn of(path: &Path) -> Self {
        match path.to_str() {
            Some(text) => Self::Text(text.into()),
            None => Self::Bytes {
                base64: crate::encode_bytes(path.as_os_str().as_bytes()),
            },
        }
    }

    fn path<E: serde::de::Error>(self) -> Result<PathBuf, E> {
        match self {
            Self::Text(text) => Ok(text.into()),
            Self::Bytes { base64 } => {
                let bytes = crate::decode_bytes(&base64).map_err(E::custom)?;
                Ok(OsString::from_vec(bytes).into())
            }
        }
    }
}

pub(crate) mod one {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
        Written::of(path).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
        Written::deserialize(from)?.path()
    }
}

pub(crate) mod many {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(paths: &[PathBuf], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(paths.iter().map(|path| Written::of(path)))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<PathBuf>, D::Error> {
        let written = Vec::<Written>::deserialize(from).map_err(D::Error::custom)?;
        written.into_iter().map(Written::path).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Both {
        #[serde(with = "one")]
        one: PathBuf,
        #[serde(with = "many")]
        many: Vec<PathBuf>,
    }

    #[test]
    fn any_name_comes_back() {
        let odd = PathBuf::from(OsString::from_vec(b"/a/\xff\n\"b".to_vec()));
        let both = Both {
            one: odd.clone(),
            many: vec!["/plain/é".into(), odd],
        };
        let line = serde_json::to_string(&both).unwrap();
        assert!(line.contains("/plain/é") && !line.contains('\n'));
        assert_eq!(serde_json::from_str::<Both>(&line).unwrap(), both);
    }
}
