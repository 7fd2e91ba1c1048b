use super::*;
use crate::plan::Spec;
use std::sync::atomic::{AtomicBool, Ordering};

fn keeper(script: &'static str) -> (tempfile::TempDir, Handle, Arc<AtomicBool>) {
    let dir = tempfile::tempdir().unwrap();
    let (recorder, writer) = Recorder::silent();
    // Its thread ends with the test program.
    std::mem::forget(writer);
    let wanted = Arc::new(AtomicBool::new(true));
    let switch = Arc::clone(&wanted);
    let folder = dir.path().to_path_buf();
    let planner: Planner = Arc::new(move || match switch.load(Ordering::SeqCst) {
        true => Plan::Run(Box::new(Spec::for_test(script, &folder))),
        false => Plan::Unwanted("not wanted".to_owned()),
    });
    let ledger = tokio::task::block_in_place(|| {
        tokio::runtime::Handle::current().block_on(Ledger::open(dir.path(), &recorder))
    });
    let shared = Shared {
        ledger: Arc::new(ledger),
        recorder,
        metrics: Arc::new(Registry::new(hands_metrics::Process::Daemon, "1").unwrap()),
    };
    (dir, keep(Kind::Server, planner, shared), wanted)
}

async fn until(handle: &Handle, what: impl FnMut(&Status) -> bool) -> Status {
    let mut watch = handle.watch();
    let found = timeout(Duration::from_secs(20), watch.wait_for(what)).await;
    found.unwrap().unwrap().clone()
}

fn alive(pid: u32) -> bool {
    process::identity(pid).is_some()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_ends_is_started_again_and_stops_when_told() {
    let (_dir, handle, _) = keeper("exec sleep 60");
    handle.start().await;
    let first = until(&handle, |status| status.pid.is_some())
        .await
        .pid
        .unwrap();
    process::signal(first, Signal::KILL);
    let second = until(&handle, |status| status.pid.is_some_and(|pid| pid != first)).await;
    assert_eq!(
        (second.restarts, second.last_exit.as_deref()),
        (1, Some("signal 9"))
    );
    handle.stop().await;
    let status = handle.status();
    assert_eq!((status.state, status.pid), (ChildState::Stopped, None));
    assert!(!alive(second.pid.unwrap()));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_ignores_sigterm_is_killed_with_its_group() {
    let (dir, handle, _) = keeper("trap '' TERM; sleep 60 & echo $! > inner; wait; wait");
    handle.start().await;
    let pid = until(&handle, |status| status.pid.is_some())
        .await
        .pid
        .unwrap();
    let inner = loop {
        if let Ok(text) = std::fs::read_to_string(dir.path().join("inner"))
            && let Ok(inner) = text.trim().parse::<u32>()
        {
            break inner;
        }
        tokio::task::yield_now().await;
    };
    handle.stop().await;
    assert!(!alive(pid) && !alive(inner));
}

#[tokio::test(flavor = "multi_thread")]
async fn exit_78_needs_the_operator_and_replace_tries_at_once() {
    let (dir, handle, _) = keeper("if [ -e mended ]; then exec sleep 60; fi; exit 78");
    handle.start().await;
    let status = until(&handle, |status| status.state == ChildState::NeedsOperator).await;
    assert!(status.reason.unwrap().contains("exit status 78"));
    std::fs::write(dir.path().join("mended"), "").unwrap();
    handle.replace().await;
    let status = handle.status();
    assert!(status.pid.is_some() && status.restarts == 0, "{status:?}");
    handle.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn health_is_shown_and_a_mend_counts_as_a_restart() {
    let (_dir, handle, wanted) = keeper("exec sleep 60");
    handle.start().await;
    let pid = until(&handle, |status| status.pid.is_some())
        .await
        .pid
        .unwrap();
    // Of another process: nothing changes.
    handle.found(pid + 1, Health::Well).await;
    handle.found(pid, Health::Unwell("early".to_owned())).await;
    handle.found(pid, Health::Well).await;
    until(&handle, |status| status.state == ChildState::Running).await;
    handle.found(pid, Health::Unwell("silent".to_owned())).await;
    let status = until(&handle, |status| status.state == ChildState::Failed).await;
    assert_eq!(status.reason.as_deref(), Some("silent"));
    handle.mend("silent".to_owned()).await;
    let status = until(&handle, |status| {
        status.restarts == 1 && status.pid.is_some()
    })
    .await;
    assert_ne!(status.pid, Some(pid));
    // A plan that wants none any more.
    wanted.store(false, Ordering::SeqCst);
    handle.replace().await;
    let status = handle.status();
    assert_eq!(
        (status.state, status.reason.as_deref()),
        (ChildState::Stopped, Some("not wanted"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_cannot_be_started_waits_longer_and_longer() {
    let (_dir, handle, _) = keeper("/no/such/program");
    handle.start().await;
    let status = until(&handle, |status| status.restarts >= 3).await;
    assert!(status.pid.is_none() || status.state == ChildState::Starting);
    handle.stop().await;
    assert_eq!(handle.status().state, ChildState::Stopped);
}
