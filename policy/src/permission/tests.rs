use super::*;

const MINUTE: Duration = Duration::from_secs(60);

/// A clock that stands still until it is moved. Both its hands can be moved apart.
#[derive(Clone)]
struct TestClock(Arc<Mutex<Moment>>);

impl TestClock {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(Moment::now())))
    }

    fn clock(&self) -> Clock {
        let shared = self.0.clone();
        Arc::new(move || *shared.lock().unwrap())
    }

    fn advance(&self, by: Duration) {
        let mut now = self.0.lock().unwrap();
        now.monotonic += by;
        now.wall += by;
    }
}

fn session(id: &str, registry: &NonceRegistry, clock: &TestClock) -> Grants {
    Grants::with_clock(id, GrantLimits::default(), registry.clone(), clock.clock())
}

fn one() -> (Grants, TestClock) {
    let clock = TestClock::new();
    (session("s", &NonceRegistry::new(), &clock), clock)
}

fn ask(grants: &mut Grants, folder: &str) -> Nonce {
    match grants.touch(Path::new(folder), Use::Write, None) {
        Ok(Decision::Required(nonce)) => nonce,
        other => panic!("no nonce: {other:?}"),
    }
}

fn answer(grants: &mut Grants, folder: &str, nonce: &Nonce) -> Result<Decision, NonceError> {
    grants.touch(Path::new(folder), Use::Write, Some(&nonce.value))
}

#[test]
fn the_first_touch_asks_and_the_nonce_opens() {
    let (mut grants, clock) = one();
    let nonce = ask(&mut grants, "/w/a");
    assert_eq!(nonce.folder, Path::new("/w/a"));
    assert_eq!(nonce.value.len(), 32);
    assert!(nonce.value.bytes().all(|b| b.is_ascii_hexdigit()));
    let now = clock.clock()().wall;
    assert_eq!(
        nonce.expires_at.duration_since(now).unwrap(),
        DEFAULT_NONCE_TTL
    );
    assert!(!grants.is_open(Path::new("/w/a"), Use::Write));
    assert_eq!(answer(&mut grants, "/w/a", &nonce), Ok(Decision::Open));
    assert_eq!(
        grants.touch(Path::new("/w/a"), Use::Write, None),
        Ok(Decision::Open)
    );
}

#[test]
fn a_grant_opens_its_own_folder_and_use_only() {
    let (mut grants, _) = one();
    let nonce = ask(&mut grants, "/w");
    answer(&mut grants, "/w", &nonce).unwrap();
    ask(&mut grants, "/w/a");
    ask(&mut grants, "/");
    let other = grants.touch(Path::new("/w"), Use::AddServer, None);
    assert!(matches!(other, Ok(Decision::Required(_))));
}

#[test]
fn a_nonce_works_once() {
    let (mut grants, _) = one();
    let nonce = ask(&mut grants, "/w/a");
    answer(&mut grants, "/w/a", &nonce).unwrap();
    assert_eq!(answer(&mut grants, "/w/a", &nonce), Err(NonceError::Used));
    assert_eq!(
        grants.touch(Path::new("/w/a"), Use::Write, None),
        Ok(Decision::Open)
    );
}

#[test]
fn a_used_nonce_does_not_reopen_a_revoked_folder() {
    let (mut grants, _) = one();
    let (used, unused) = (ask(&mut grants, "/w/a"), ask(&mut grants, "/w/a"));
    answer(&mut grants, "/w/a", &used).unwrap();
    assert_eq!(grants.revoke(Path::new("/w/a")), 1);
    assert_eq!(answer(&mut grants, "/w/a", &used), Err(NonceError::Used));
    assert_eq!(
        answer(&mut grants, "/w/a", &unused),
        Err(NonceError::Expired)
    );
    let fresh = ask(&mut grants, "/w/a");
    assert_eq!(answer(&mut grants, "/w/a", &fresh), Ok(Decision::Open));
    assert_eq!(grants.revoke(Path::new("/w/b")), 0);
}

#[test]
fn a_nonce_of_another_folder_use_or_session_is_foreign_and_stays_good() {
    let (registry, clock) = (NonceRegistry::new(), TestClock::new());
    let mut mine = session("mine", &registry, &clock);
    let mut other = session("other", &registry, &clock);
    let nonce = ask(&mut mine, "/w/a");
    assert_eq!(answer(&mut mine, "/w/b", &nonce), Err(NonceError::Foreign));
    assert_eq!(
        answer(&mut mine, "/w/a/b", &nonce),
        Err(NonceError::Foreign)
    );
    assert_eq!(answer(&mut other, "/w/a", &nonce), Err(NonceError::Foreign));
    let add = mine.touch(Path::new("/w/a"), Use::AddServer, Some(&nonce.value));
    assert_eq!(add, Err(NonceError::Foreign));
    assert_eq!(answer(&mut mine, "/w/a", &nonce), Ok(Decision::Open));
    assert!(!other.is_open(Path::new("/w/a"), Use::Write));
}

#[test]
fn a_nonce_of_an_ended_session_is_foreign() {
    let (registry, clock) = (NonceRegistry::new(), TestClock::new());
    let mut ended = session("ended", &registry, &clock);
    let nonce = ask(&mut ended, "/w/a");
    drop(ended);
    let mut next = session("next", &registry, &clock);
    assert_eq!(answer(&mut next, "/w/a", &nonce), Err(NonceError::Foreign));
    let mut namesake = session("ended", &registry, &clock);
    assert_eq!(
        answer(&mut namesake, "/w/a", &nonce),
        Err(NonceError::Expired)
    );
}

#[test]
fn made_up_nonces_are_unknown() {
    let (mut grants, clock) = one();
    let mut elsewhere = session("s", &NonceRegistry::new(), &clock);
    let nonce = ask(&mut elsewhere, "/w/a");
    assert_eq!(
        answer(&mut grants, "/w/a", &nonce),
        Err(NonceError::Unknown)
    );
    let long = "a".repeat(1 << 20);
    for value in ["", "x", "00000000000000000000000000000000", long.as_str()] {
        let got = grants.touch(Path::new("/w/a"), Use::Write, Some(value));
        assert_eq!(got, Err(NonceError::Unknown));
    }
}

#[test]
fn blanks_around_a_nonce_do_not_matter() {
    let (mut grants, _) = one();
    let value = format!(" {}\n", ask(&mut grants, "/w").value);
    let got = grants.touch(Path::new("/w"), Use::Write, Some(&value));
    assert_eq!(got, Ok(Decision::Open));
}

#[test]
fn nonces_expire() {
    let (mut grants, clock) = one();
    let (early, late) = (ask(&mut grants, "/w/a"), ask(&mut grants, "/w/b"));
    clock.advance(DEFAULT_NONCE_TTL - Duration::from_nanos(1));
    assert_eq!(answer(&mut grants, "/w/a", &early), Ok(Decision::Open));
    clock.advance(Duration::from_nanos(1));
    assert_eq!(answer(&mut grants, "/w/b", &late), Err(NonceError::Expired));
}

#[test]
fn grants_end_after_eight_hours_whatever_is_asked_for() {
    let clock = TestClock::new();
    let limits = GrantLimits {
        nonce_ttl: MINUTE,
        grant_ttl: MAX_GRANT_TTL * 10,
    };
    let mut grants = Grants::with_clock("s", limits, NonceRegistry::new(), clock.clock());
    let nonce = ask(&mut grants, "/w/a");
    answer(&mut grants, "/w/a", &nonce).unwrap();
    let grant = grants.list().remove(0);
    let life = grant.expires_at.duration_since(grant.granted_at).unwrap();
    assert_eq!(life, MAX_GRANT_TTL);
    clock.advance(MAX_GRANT_TTL - MINUTE);
    assert!(grants.is_open(Path::new("/w/a"), Use::Write));
    clock.advance(MINUTE);
    assert!(!grants.is_open(Path::new("/w/a"), Use::Write));
    assert!(grants.list().is_empty());
    ask(&mut grants, "/w/a");
}

#[test]
fn setting_the_clock_back_prolongs_nothing() {
    let (mut grants, clock) = one();
    let nonce = ask(&mut grants, "/w/a");
    {
        let mut now = clock.0.lock().unwrap();
        now.wall -= MINUTE * 600;
        now.monotonic += DEFAULT_NONCE_TTL;
    }
    assert_eq!(
        answer(&mut grants, "/w/a", &nonce),
        Err(NonceError::Expired)
    );
}

#[test]
fn sleep_of_the_machine_counts() {
    let (mut grants, clock) = one();
    grants.allow(Path::new("/w/a"), Use::Write);
    clock.0.lock().unwrap().wall += MAX_GRANT_TTL;
    assert!(!grants.is_open(Path::new("/w/a"), Use::Write));
}

#[test]
fn asking_again_leaves_the_older_nonce_good() {
    let (mut grants, _) = one();
    let (first, second) = (ask(&mut grants, "/w/a"), ask(&mut grants, "/w/a"));
    assert_ne!(first.value, second.value);
    assert_eq!(answer(&mut grants, "/w/a", &first), Ok(Decision::Open));
    assert_eq!(answer(&mut grants, "/w/a", &second), Ok(Decision::Open));
}

#[test]
fn only_so_many_nonces_are_outstanding_in_a_session() {
    let (registry, clock) = (NonceRegistry::new(), TestClock::new());
    let mut other = session("other", &registry, &clock);
    let others = ask(&mut other, "/w/a");
    let mut grants = session("s", &registry, &clock);
    let nonces: Vec<Nonce> = (0..=MAX_OUTSTANDING_NONCES)
        .map(|i| ask(&mut grants, &format!("/w/{i}")))
        .collect();
    assert_eq!(
        answer(&mut grants, "/w/0", &nonces[0]),
        Err(NonceError::Expired)
    );
    assert_eq!(answer(&mut grants, "/w/1", &nonces[1]), Ok(Decision::Open));
    assert_eq!(answer(&mut other, "/w/a", &others), Ok(Decision::Open));
}

#[test]
fn the_registry_forgets_spent_nonces_first() {
    let (registry, clock) = (NonceRegistry::new(), TestClock::new());
    let mut quiet = session("quiet", &registry, &clock);
    let kept = ask(&mut quiet, "/w/a");
    let mut loud = session("loud", &registry, &clock);
    let first = ask(&mut loud, "/w/b");
    for _ in 0..MAX_REMEMBERED_NONCES + 10 {
        ask(&mut loud, "/w/b");
    }
    let remembered = registry.lock();
    assert_eq!(remembered.order.len(), MAX_REMEMBERED_NONCES);
    assert_eq!(remembered.by_value.len(), MAX_REMEMBERED_NONCES);
    drop(remembered);
    assert_eq!(answer(&mut loud, "/w/b", &first), Err(NonceError::Unknown));
    assert_eq!(answer(&mut quiet, "/w/a", &kept), Ok(Decision::Open));
}

#[test]
fn the_list_shows_what_is_open() {
    let (mut grants, _) = one();
    grants.allow(Path::new("/w/a"), Use::Write);
    grants.allow(Path::new("/w/a"), Use::AddServer);
    grants.allow(Path::new("/w/a"), Use::Write);
    let list = grants.list();
    let shown: Vec<_> = list
        .iter()
        .map(|g| (g.folder.as_path(), g.purpose))
        .collect();
    let folder = Path::new("/w/a");
    assert_eq!(shown, [(folder, Use::AddServer), (folder, Use::Write)]);
    assert_eq!(grants.revoke(folder), 2);
    assert!(grants.list().is_empty());
}

#[test]
fn folder_keys() {
    let workspaces = ["/w", "/w/inner", "/v"];
    let key = |file: &str| folder_key(&workspaces, Path::new(file));
    assert_eq!(key("/w/file"), Some("/w".into()));
    assert_eq!(key("/w/a/file"), Some("/w/a".into()));
    assert_eq!(key("/w/a/b/c/file"), Some("/w/a".into()));
    assert_eq!(key("/w/inner/file"), Some("/w/inner".into()));
    assert_eq!(key("/w/inner/b/file"), Some("/w/inner/b".into()));
    assert_eq!(key("/v/file"), Some("/v".into()));
    assert_eq!(key("/w-evil/file"), None);
    assert_eq!(key("/other"), None);
    assert_eq!(key("/v"), None);
}
