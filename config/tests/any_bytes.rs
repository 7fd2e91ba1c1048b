//! Whatever bytes the file holds, loading answers, and an error in it names the file.

use hands_config::{Env, Flags, Home, load};
use proptest::prelude::*;

/// Pieces that are nearly a configuration, so that most inputs get past the syntax.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("[sandbox]\n".to_owned()),
        Just("mode = \"strict\"\n".to_owned()),
        Just("[limits]\n".to_owned()),
        Just("workspaces = [\"~/a\", \"é\"]\n".to_owned()),
        "[a-z_.]{1,12} = (-?[0-9]{1,20}|true|\"[^\"\\\\]{0,9}\"|\\[\\]|\\{\\})\n",
        any::<String>(),
    ]
}

proptest! {
    #[test]
    fn loading_never_panics(
        text in prop_oneof![
            proptest::collection::vec(piece(), 0..6).prop_map(|all| all.concat().into_bytes()),
            proptest::collection::vec(any::<u8>(), 0..200),
        ],
        value in "[ -~é]{0,30}",
    ) {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path());
        std::fs::write(home.config_file(), &text).unwrap();
        let lines = 1 + text.iter().filter(|byte| **byte == b'\n').count();
        let env = Env::of(&[("HOME", "/home/ann")]);
        if let Err(error) = load(&home, &env, &Flags::default()) {
            prop_assert!(error.to_string().contains("config.toml"), "{}", error);
            if let Some(line) = error.line() {
                prop_assert!((1..=lines).contains(&line), "line {} of {}", line, lines);
            }
        }
        std::fs::remove_file(home.config_file()).unwrap();
        for key in hands_config::keys::KEYS {
            let name = key.env_name();
            let env = Env::of(&[("HOME", "/home/ann"), (&name, &value)]);
            let _ = load(&home, &env, &Flags::default());
        }
    }
}
