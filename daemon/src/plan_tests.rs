use super::*;
use std::os::unix::fs::PermissionsExt as _;

struct Place {
    _dir: tempfile::TempDir,
    basis: Basis,
}

fn place() -> Place {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::at(dir.path().join("a home"));
    home.prepare().unwrap();
    let environment = [
        ("PATH", "/usr/bin:/bin"),
        ("OPENAI_API_KEY", "sk-secret"),
        ("NOTIFY_SOCKET", "/run/x"),
        ("HANDS_WORKSPACES", "/w"),
    ];
    let basis = Basis {
        home,
        programs: Programs {
            mcp: PathBuf::from("/opt/hands/hands-mcp"),
            tunnel: None,
        },
        environment: environment
            .map(|(name, value)| (name.into(), value.into()))
            .to_vec(),
    };
    Place { _dir: dir, basis }
}

fn operator(plan: Plan) -> String {
    match plan {
        Plan::Operator(why) => why,
        other => unreachable!("{other:?}"),
    }
}

#[test]
fn children_get_no_key_and_nothing_of_the_service_manager() {
    let place = place();
    let Plan::Run(spec) = place.basis.server() else {
        unreachable!()
    };
    let names: Vec<_> = spec
        .environment
        .iter()
        .map(|(name, _)| name.to_str().unwrap())
        .collect();
    assert_eq!(names, ["PATH", "HANDS_WORKSPACES", "HANDS_HOME"]);
    let home = place.basis.home.root().as_os_str();
    assert_eq!(
        spec.arguments,
        [OsStr::new("--serve"), OsStr::new("--home"), home]
    );
}

#[test]
fn without_an_id_there_is_no_tunnel_and_a_bad_key_needs_the_operator() {
    let place = place();
    let mut config = Config::default();
    assert!(matches!(place.basis.tunnel(&config), Plan::Unwanted(_)));
    config.tunnel.id = Some("tunnel_1".to_owned());
    let key = place.basis.home.tunnel_key_file();
    let why = operator(place.basis.tunnel(&config));
    assert!(
        why.contains("tunnel setup") && !why.contains(key.to_str().unwrap()),
        "{why}"
    );
    std::fs::write(&key, "sk-secret").unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert!(operator(place.basis.tunnel(&config)).contains("0600"));
    std::fs::write(&key, "").unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    assert!(operator(place.basis.tunnel(&config)).contains("empty"));
    std::fs::write(&key, "sk-secret").unwrap();
    config.tunnel.client = TunnelClient::Official;
    assert!(operator(place.basis.tunnel(&config)).contains("tunnel-client"));
    config.tunnel.client_path = Some(PathBuf::from("/nowhere/tunnel-client"));
    assert!(operator(place.basis.tunnel(&config)).contains("/nowhere/tunnel-client"));
}

#[test]
fn a_key_in_the_keychain_is_for_the_builtin_client_alone() {
    let place = place();
    let mut config = Config::default();
    config.tunnel.id = Some("tunnel_1".to_owned());
    config.tunnel.key_store = KeyStore::Keychain;
    let key = |official| place.basis.key(&config, "tunnel_1", official);
    assert_eq!(
        key(false),
        Ok(KeyReference::Keychain("tunnel_1".to_owned()))
    );
    assert!(key(true).unwrap_err().contains("--store file"));
    // Asked before the client itself is run, and without a key in a file.
    config.tunnel.client_path = Some(PathBuf::from("/bin/true"));
    let why = operator(place.basis.tunnel(&config));
    assert!(why.contains("--store file"), "{why}");
}
