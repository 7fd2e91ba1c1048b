use super::*;
use serde_json::json;

const POLL: Duration = Duration::from_secs(10);

fn kinds(health: &TunnelHealth) -> Vec<TroubleKind> {
    health.troubles.iter().map(|trouble| trouble.kind).collect()
}

fn page(codes: &[&str], trouble: bool, name: Option<&str>) -> Value {
    let reasons: Vec<Value> = codes
        .iter()
        .map(|code| json!({"code": code, "message": "why\u{1b}\u{202e}[2J"}))
        .collect();
    json!({
        "reasons": reasons,
        "tunnel": {"name": name},
        "poll": {
            "trouble": trouble.then(|| json!({"message": "m"})),
            "last_good_age_ms": 1500,
            "by_outcome": {"empty": 3, "server_error": 1},
        },
        "commands": {"in_flight": 2, "posts_by_outcome": {"ok": 5}},
    })
}

#[test]
fn the_codes_of_the_builtin_client_say_who_must_act() {
    let read = |codes: &[&str], trouble, name, age: u64| {
        let health = read_page(&page(codes, trouble, name), Duration::from_secs(age), POLL);
        kinds(&health)
    };
    assert_eq!(read(&[], false, Some("t"), 1), []);
    assert_eq!(
        read(&["needs_operator"], true, None, 1),
        [TroubleKind::Operator]
    );
    assert_eq!(
        read(&["polls_fail"], true, None, 1),
        [TroubleKind::OtherSide]
    );
    for theirs in ["polls_slow", "posts_refused"] {
        assert_eq!(
            read(&[theirs], false, Some("t"), 90),
            [TroubleKind::OtherSide]
        );
    }
    assert_eq!(
        read(&["polls_stale"], true, Some("t"), 90),
        [TroubleKind::OtherSide]
    );
    assert_eq!(
        read(&["polls_stale"], false, Some("t"), 90),
        [TroubleKind::NoPolls]
    );
    assert_eq!(
        read(&["calls_fail"], false, Some("t"), 90),
        [TroubleKind::CallsFail]
    );
    assert_eq!(
        read(&["server_down"], false, Some("t"), 90),
        [TroubleKind::Link]
    );
    // The first poll of an idle tunnel takes as long as a poll may wait.
    assert_eq!(read(&["no_poll"], false, Some("t"), 1), []);
    assert_eq!(read(&["no_poll"], false, None, 1), [TroubleKind::Starting]);
    assert_eq!(
        read(&["no_poll"], false, Some("t"), 60),
        [TroubleKind::Starting]
    );
    assert_eq!(
        read(&["a_later_code"], false, Some("t"), 60),
        [TroubleKind::Starting]
    );
}

#[test]
fn the_last_of_what_is_waited_for_is_the_next_try() {
    let left = |page: Value| {
        let at = next_try(&page)?;
        Some(at.duration_since(SystemTime::now()).unwrap())
    };
    let poll = json!({"trouble": {"retry_in_ms": 90_000}});
    let both = json!({"poll": poll, "server": {"restart_in_ms": 60_000}});
    let seconds = left(both).unwrap().as_secs();
    assert!((61..=90).contains(&seconds), "{seconds}");
    assert!(left(json!({"poll": {"trouble": null}})).is_none());
    assert!(
        left(json!({"poll": {"trouble": {"retry_in_ms": u64::MAX}}}))
            .is_none_or(|left| left > POLL)
    );
}

#[test]
fn figures_come_across_and_messages_cannot_drive_a_terminal() {
    let health = read_page(&page(&["calls_fail"], false, None), POLL, POLL);
    assert_eq!(health.troubles[0].message, "why[2J");
    assert_eq!(health.last_good_poll, Some(Duration::from_millis(1500)));
    assert_eq!(
        health.figures.polls,
        [("empty".to_owned(), 3), ("server_error".to_owned(), 1)]
    );
    assert_eq!(
        (health.figures.posts.len(), health.figures.in_flight),
        (1, 2)
    );
    // A page of another version is no panic.
    assert_eq!(read_page(&json!({}), POLL, POLL), TunnelHealth::default());
}

fn official(good_ago: Option<f64>, errors: u64, good: u64, bad: u64) -> Totals {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs_f64();
    let last = good_ago.map_or(0.0, |ago| now - ago);
    Totals::read(&format!(
        "# HELP x\ncommands_poll_last_successful_timestamp_seconds{{a=\"b\"}} {last}\n\
         commands_poll_cycles_total 9\ncommands_poll_errors_total{{error_kind=\"timeout\"}} {errors}\n\
         command_end_to_end_latency_milliseconds_count{{tunnel_service_status=\"200\",x=\"y\"}} {good}\n\
         command_end_to_end_latency_milliseconds_count{{tunnel_service_status=\"502\"}} {bad}\n\
         something_else NaN\nbroken\n"
    ))
}

fn seen() -> Seen {
    Seen::new(1, Instant::now())
}

#[test]
fn the_official_clients_figures_are_compared_over_time() {
    let start = Instant::now();
    let at = |seconds| start + Duration::from_secs(seconds);
    let look = |seen: &mut Seen, totals: Totals, second| {
        seen.update(&totals, at(second));
        kinds(&seen.health(&totals, POLL, at(second)))
    };
    let mut client = seen();
    assert_eq!(
        look(&mut client, official(None, 0, 0, 0), 1),
        [TroubleKind::Starting]
    );
    assert_eq!(look(&mut client, official(Some(1.0), 0, 1, 0), 2), []);
    // Two bad answers, a good one, then three bad ones.
    assert_eq!(look(&mut client, official(Some(1.0), 0, 1, 2), 4), []);
    assert_eq!(look(&mut client, official(Some(1.0), 0, 2, 2), 6), []);
    assert_eq!(
        look(&mut client, official(Some(1.0), 0, 2, 5), 8),
        [TroubleKind::CallsFail]
    );
    // No polls at all is ours to mend, failing ones are not.
    let mut silent = seen();
    assert_eq!(
        look(&mut silent, official(Some(60.0), 0, 1, 0), 60),
        [TroubleKind::NoPolls]
    );
    assert_eq!(
        look(&mut silent, official(Some(62.0), 4, 1, 0), 62),
        [TroubleKind::OtherSide]
    );
    assert_eq!(
        look(&mut silent, official(Some(90.0), 4, 1, 0), 90),
        [TroubleKind::NoPolls]
    );
}

#[test]
fn a_refused_key_of_the_official_client_is_known_by_the_status_of_its_polls() {
    let totals = |refused: u64, errors: u64| {
        Totals::read(&format!(
            "commands_poll_errors_total {errors}\n\
             http_client_request_duration_seconds_count{{http_response_status_code=\"401\",http_route=\"/v1/tunnels/x/poll\"}} {refused}\n\
             http_client_request_duration_seconds_count{{http_route=\"/v1/tunnels/x/poll\"}} 2\n\
             http_client_request_duration_seconds_count{{http_response_status_code=\"401\",http_route=\"/v1/tunnels/x\"}} 9\n"
        ))
    };
    let (mut client, now) = (seen(), Instant::now());
    let mut look = |totals: Totals| {
        client.update(&totals, now);
        client.health(&totals, POLL, now)
    };
    let health = look(totals(3, 3));
    assert_eq!(kinds(&health), [TroubleKind::Operator]);
    assert_eq!(
        health.figures.polls,
        [(String::new(), 2), ("401".to_owned(), 3)]
    );
    // Refused before, unreachable now.
    assert_eq!(kinds(&look(totals(3, 4))), [TroubleKind::OtherSide]);
    assert_eq!(kinds(&look(totals(4, 5))), [TroubleKind::Operator]);
}
