use super::*;
use crate::limits::MAX_REMEMBERED_NONCES;
use std::sync::Mutex;

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
    match grants.touch(Path::new(folder), Act::Edit, None) {
        Ok(Decision::Required(nonce)) => nonce,
        other => panic!("no nonce: {other:?}"),
    }
}

fn answer(grants: &mut Grants, folder: &str, nonce: &Nonce) -> Result<Decision, NonceError> {
    grants.touch(Path::new(folder), nonce.act, Some(&nonce.value))
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
        grants.touch(Path::new("/w/a"), Act::Edit, None),
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
    let other = grants.touch(Path::new("/w"), Act::AddServer, None);
    assert!(matches!(other, Ok(Decision::Required(_))));
}

#[test]
fn a_nonce_works_once() {
    let (mut grants, _) = one();
    let nonce = ask(&mut grants, "/w/a");
    answer(&mut grants, "/w/a", &nonce).unwrap();
    assert_eq!(answer(&mut grants, "/w/a", &nonce), Err(NonceError::Used));
    assert_eq!(
        grants.touch(Path::new("/w/a"), Act::Edit, None),
        Ok(Decision::Open)
    );
}

#[test]
fn a_used_nonce_does_not_reopen_a_revoked_folder() {
    let (mut grants, _) = one();
    let (used, unused) = (ask(&mut grants, "/w/a"), ask(&mut grants, "/w/a"));
    answer(&mut grants, "/w/a", &used).unwrap();
    let ended = grants.revoke(Path::new("/w/a"));
    assert_eq!((ended.grants.len(), ended.nonces.len()), (1, 1));
    assert!(!grants.is_open(Path::new("/w/a"), Use::Write));
    assert_eq!(answer(&mut grants, "/w/a", &used), Err(NonceError::Used));
    assert_eq!(
        answer(&mut grants, "/w/a", &unused),
        Err(NonceError::Revoked)
    );
    let fresh = ask(&mut grants, "/w/a");
    assert_eq!(answer(&mut grants, "/w/a", &fresh), Ok(Decision::Open));
    assert!(grants.revoke(Path::new("/w/b")).is_empty());
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
    let add = mine.touch(Path::new("/w/a"), Act::AddServer, Some(&nonce.value));
    assert_eq!(add, Err(NonceError::OtherUse(Act::Edit)));
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
        Err(NonceError::Revoked)
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
        let got = grants.touch(Path::new("/w/a"), Act::Edit, Some(value));
        assert_eq!(got, Err(NonceError::Unknown));
    }
}

#[test]
fn blanks_around_a_nonce_do_not_matter() {
    let (mut grants, _) = one();
    let value = format!(" {}\n", ask(&mut grants, "/w").value);
    let got = grants.touch(Path::new("/w"), Act::Edit, Some(&value));
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
        ..GrantLimits::default()
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
    grants.allow(Path::new("/w/a"), Use::Write, MAX_GRANT_TTL);
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
    let all = MAX_REMEMBERED_NONCES;
    assert_eq!(registry.remembered(), (all, all));
    assert_eq!(answer(&mut loud, "/w/b", &first), Err(NonceError::Unknown));
    assert_eq!(answer(&mut quiet, "/w/a", &kept), Ok(Decision::Open));
}

#[test]
fn the_list_shows_what_is_open() {
    let (mut grants, _) = one();
    for purpose in [Use::Write, Use::AddServer, Use::Write] {
        grants.allow(Path::new("/w/a"), purpose, MAX_GRANT_TTL);
    }
    let list = grants.list();
    let shown: Vec<_> = list
        .iter()
        .map(|g| (g.folder.as_path(), g.purpose))
        .collect();
    let folder = Path::new("/w/a");
    assert_eq!(shown, [(folder, Use::AddServer), (folder, Use::Write)]);
    assert!(list.iter().all(|grant| grant.giver == Giver::Person));
    assert_eq!(grants.revoke(folder).grants, list);
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

#[test]
fn a_nonce_is_good_for_the_use_that_it_was_asked_for() {
    let acts = [Act::Overwrite, Act::Append, Act::Edit, Act::AddServer];
    for asked in acts {
        for used in acts.into_iter().filter(|used| *used != asked) {
            let (mut grants, _) = one();
            let folder = Path::new("/w/a");
            let Ok(Decision::Required(nonce)) = grants.touch(folder, asked, None) else {
                panic!("no nonce for {asked}");
            };
            let wrong = grants.touch(folder, used, Some(&nonce.value));
            assert_eq!(wrong, Err(NonceError::OtherUse(asked)), "{used}");
            assert!(grants.list().is_empty());
            // It stays good for its own, and what it opens is the whole use.
            let right = grants.touch(folder, asked, Some(&nonce.value));
            assert_eq!(right, Ok(Decision::Open));
            let same = used.purpose() == asked.purpose();
            assert_eq!(grants.is_open(folder, used.purpose()), same);
        }
    }
}

#[test]
fn where_the_person_alone_grants_no_nonce_is_made_or_taken() {
    let (registry, clock) = (NonceRegistry::new(), TestClock::new());
    let limits = GrantLimits {
        consent: Consent::Person,
        ..GrantLimits::default()
    };
    let mut grants = Grants::with_clock("s", limits, registry.clone(), clock.clock());
    let folder = Path::new("/w/a");
    assert_eq!(
        grants.touch(folder, Act::Edit, None),
        Ok(Decision::PersonRequired)
    );
    assert_eq!(registry.remembered(), (0, 0));
    // Nor one that the same session got while nonces counted.
    let good = ask(&mut session("s", &registry, &clock), "/w/a");
    for value in [good.value.as_str(), "", "yes", &"a".repeat(1000)] {
        let got = grants.touch(folder, Act::Edit, Some(value));
        assert_eq!(got, Err(NonceError::NotTaken));
    }
    assert!(!grants.is_open(folder, Use::Write));
    let pending = grants.pending();
    assert_eq!((pending.len(), pending[0].expires_at), (1, None));
    grants.allow(folder, Use::Write, MINUTE);
    assert_eq!(grants.touch(folder, Act::Edit, None), Ok(Decision::Open));
    assert!(grants.pending().is_empty());
    let again = grants.touch(folder, Act::Edit, Some(&good.value));
    assert_eq!(again, Err(NonceError::NotTaken));
    grants.revoke(folder);
    assert_eq!(
        grants.touch(folder, Act::Edit, None),
        Ok(Decision::PersonRequired)
    );
}

#[test]
fn what_is_asked_for_is_remembered_within_bounds() {
    let limits = GrantLimits {
        consent: Consent::Person,
        ..GrantLimits::default()
    };
    let mut grants = Grants::new("s", limits, NonceRegistry::new());
    for n in 0..MAX_OUTSTANDING_NONCES * 3 {
        let folder = PathBuf::from(format!("/w/{n}"));
        for _ in 0..2 {
            grants.touch(&folder, Act::Edit, None).unwrap();
        }
    }
    let pending = grants.pending();
    assert_eq!(pending.len(), MAX_OUTSTANDING_NONCES);
    let last = format!("/w/{}", MAX_OUTSTANDING_NONCES * 3 - 1);
    assert_eq!(pending.last().unwrap().folder, Path::new(&last));
}

#[test]
fn a_persons_grant_lasts_as_long_as_they_say_and_no_longer_than_it_may() {
    let (mut grants, clock) = one();
    let (short, long) = (Path::new("/w/short"), Path::new("/w/long"));
    grants.allow(short, Use::Write, MINUTE);
    grants.allow(long, Use::Write, MAX_GRANT_TTL * 10);
    clock.advance(MINUTE);
    assert!(!grants.is_open(short, Use::Write) && grants.is_open(long, Use::Write));
    // The last word counts, also where it is the shorter one.
    grants.allow(long, Use::Write, MINUTE);
    clock.advance(MINUTE);
    assert!(!grants.is_open(long, Use::Write));
    grants.allow(long, Use::Write, MAX_GRANT_TTL * 10);
    clock.advance(MAX_GRANT_TTL);
    assert!(!grants.is_open(long, Use::Write));
}

#[test]
fn what_lapsed_is_told_once() {
    let (mut grants, clock) = one();
    let nonce = ask(&mut grants, "/w/a");
    grants.allow(Path::new("/w/b"), Use::Write, MINUTE);
    assert!(grants.lapse().is_empty());
    clock.advance(MINUTE);
    let lapsed = grants.lapse();
    assert_eq!(lapsed.grants[0].folder, Path::new("/w/b"));
    assert!(lapsed.nonces.is_empty() && grants.lapse().is_empty());
    clock.advance(DEFAULT_NONCE_TTL);
    let lapsed = grants.lapse();
    assert_eq!(lapsed.nonces[0].folder, Path::new("/w/a"));
    assert!(lapsed.grants.is_empty() && grants.lapse().is_empty());
    assert_eq!(
        answer(&mut grants, "/w/a", &nonce),
        Err(NonceError::Expired)
    );
}

#[test]
fn the_end_of_a_session_ends_everything_for_good() {
    let (mut grants, _) = one();
    let nonce = ask(&mut grants, "/w/a");
    grants.allow(Path::new("/w/b"), Use::Write, MINUTE);
    let ended = grants.end();
    assert_eq!((ended.grants.len(), ended.nonces.len()), (1, 1));
    assert_eq!(
        answer(&mut grants, "/w/a", &nonce),
        Err(NonceError::Revoked)
    );
    grants.allow(Path::new("/w/b"), Use::Write, MINUTE);
    assert!(!grants.is_open(Path::new("/w/b"), Use::Write) && grants.list().is_empty());
    assert!(grants.end().is_empty() && grants.has_ended());
}
