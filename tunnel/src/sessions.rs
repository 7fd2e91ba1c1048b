//! The server sessions: the main one, and one for each `Mcp-Session-Id`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::child::ChildSpec;
use crate::limits;
use crate::metrics::Metrics;
use crate::session::{ChildState, Session};
use crate::sync::lock;
use crate::wire::{Failure, Source};

/// All sessions of this process.
#[derive(Debug)]
pub struct Sessions {
    spec: ChildSpec,
    metrics: Arc<Metrics>,
    main: Arc<Session>,
    named: Mutex<HashMap<String, Arc<Session>>>,
}

impl Sessions {
    /// Starts the main session.
    pub fn start(spec: ChildSpec, metrics: Arc<Metrics>) -> Self {
        let main = Session::start("main", spec.clone(), Arc::clone(&metrics));
        Self {
            spec,
            metrics,
            main: Arc::new(main),
            named: Mutex::default(),
        }
    }

    /// The session of a command, started where it is not there yet. Where too many are there,
    /// the one that was idle the longest makes room; one that a caller still holds never does.
    pub fn get(&self, name: Option<&str>) -> Result<Arc<Session>, Failure> {
        let Some(name) = name else {
            return Ok(Arc::clone(&self.main));
        };
        let mut named = self.named();
        if let Some(session) = named.get(name) {
            return Ok(Arc::clone(session));
        }
        self.make_room(&mut named)?;
        let number = named.len() + 1;
        let label = format!("session {number}");
        let session = Session::start(&label, self.spec.clone(), Arc::clone(&self.metrics));
        let session = Arc::new(session);
        named.insert(name.to_owned(), Arc::clone(&session));
        Ok(session)
    }

    fn make_room(&self, named: &mut HashMap<String, Arc<Session>>) -> Result<(), Failure> {
        let old = |session: &Arc<Session>| session.idle() >= limits::SESSION_IDLE;
        // Callers get theirs under the same lock, so that none can come to hold it meanwhile.
        let free = |session: &Arc<Session>| Arc::strong_count(session) == 1;
        let mut ending: Vec<String> = named
            .iter()
            .filter(|(_, session)| free(session) && old(session))
            .map(|(name, _)| name.clone())
            .collect();
        if ending.is_empty() && named.len() >= limits::SESSIONS_MAX {
            let free = named.iter().filter(|(_, session)| free(session));
            let Some((name, _)) = free.max_by_key(|(_, session)| session.idle()) else {
                let text = format!(
                    "{} sessions are in use behind this tunnel, and it holds no more: wait for a \
                     call of one to end, or end one, and try again.",
                    named.len()
                );
                return Err(Failure::new(Source::ClientInternal, None, text));
            };
            ending.push(name.clone());
        }
        for name in ending {
            if let Some(session) = named.remove(&name) {
                tokio::spawn(async move { session.stop().await });
            }
        }
        Ok(())
    }

    /// Ends a named session; the main one stays, since it is not the planner's alone.
    pub async fn end(&self, name: &str) {
        let session = self.named().remove(name);
        if let Some(session) = session {
            session.stop().await;
        }
    }

    /// What is known about the main session's child.
    pub fn main_state(&self) -> ChildState {
        self.main.state()
    }

    /// How many sessions there are.
    pub fn count(&self) -> usize {
        self.named().len() + 1
    }

    /// Ends all children.
    pub async fn stop(&self) {
        let all: Vec<_> = self.named().drain().map(|(_, session)| session).collect();
        let mut ends = tokio::task::JoinSet::new();
        for session in all {
            ends.spawn(async move { session.stop().await });
        }
        self.main.stop().await;
        while ends.join_next().await.is_some() {}
    }

    fn named(&self) -> MutexGuard<'_, HashMap<String, Arc<Session>>> {
        lock(&self.named)
    }
}
