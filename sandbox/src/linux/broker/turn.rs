//! Which worker takes the next call.
//!
//! The kernel wakes every thread that waits at the listener for each call, and lets it run on the
//! caller's own processor. So one worker at a time waits there, and carries out itself what it
//! takes: the next callers wait in the kernel meanwhile. Nobody may wait for something slow,
//! though. A worker that is about to do such a thing steps aside; and another one stands by, and
//! takes over from a worker that has been at the same call for [`limits::BROKER_PATIENCE`].

use super::keeper::lock;
use crate::limits;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

thread_local! {
    /// The number under which this thread is at a call; 0: at none.
    static MINE: Cell<u64> = const { Cell::new(0) };
}

/// The place at the listener, which one worker has.
#[derive(Default)]
pub(super) struct Turn {
    seat: Mutex<Seat>,
    /// Told when the place is free and when there is something to watch.
    news: Condvar,
    /// Calls begun and ended in the place: odd while its worker is at one. Who changes it from
    /// the number of their own call still has the place.
    count: AtomicU64,
    /// Whether calls came lately, so that somebody has to watch.
    stirred: AtomicBool,
    /// Workers at a call, in the place or beside it.
    at_work: AtomicUsize,
}

#[derive(Default)]
struct Seat {
    taken: bool,
    watched: bool,
    over: bool,
}

impl Turn {
    /// The worker in the place leaves it for good.
    pub(super) fn leave(&self) {
        lock(&self.seat).taken = false;
        self.news.notify_all();
    }

    /// Waits for the place; false when the command is over.
    pub(super) fn take(&self) -> bool {
        let mut seat = lock(&self.seat);
        loop {
            if seat.over {
                return false;
            }
            if !seat.taken {
                seat.taken = true;
                return true;
            }
            if seat.watched || !self.stirred.load(Ordering::SeqCst) {
                seat = wait(&self.news, seat);
                continue;
            }
            seat.watched = true;
            let before = self.count.load(Ordering::SeqCst);
            let (now, in_vain) = wait_for(&self.news, seat, limits::BROKER_PATIENCE);
            seat = now;
            seat.watched = false;
            if in_vain && self.has_stalled(before) {
                // Somebody else has to watch from now on.
                self.news.notify_one();
                return true;
            }
        }
    }

    /// Takes the place of a worker that is still at the call it was at before. When no call came
    /// at all, nothing needs watching.
    fn has_stalled(&self, before: u64) -> bool {
        if before % 2 == 1 {
            let replaced =
                self.count
                    .compare_exchange(before, before + 1, Ordering::SeqCst, Ordering::SeqCst);
            return replaced.is_ok();
        }
        self.stirred.store(false, Ordering::SeqCst);
        if self.count.load(Ordering::SeqCst) != before {
            self.stirred.store(true, Ordering::SeqCst);
        }
        false
    }

    /// The worker in the place has a call.
    pub(super) fn begin(&self) {
        self.at_work.fetch_add(1, Ordering::SeqCst);
        let mine = self.count.fetch_add(1, Ordering::SeqCst) + 1;
        MINE.set(mine);
        if !self.stirred.load(Ordering::SeqCst) {
            self.stirred.store(true, Ordering::SeqCst);
            // Whoever is about to wait for it does so first.
            drop(lock(&self.seat));
            self.news.notify_one();
        }
    }

    /// It has answered; whether it still has the place.
    pub(super) fn end(&self) -> bool {
        self.at_work.fetch_sub(1, Ordering::SeqCst);
        self.give_up_number()
    }

    /// Lets another worker have the place, where this one has it: what comes may take long.
    pub(super) fn step_aside(&self) {
        if MINE.get() != 0 && self.give_up_number() {
            lock(&self.seat).taken = false;
            self.news.notify_one();
        }
    }

    fn give_up_number(&self) -> bool {
        let mine = MINE.replace(0);
        let order = Ordering::SeqCst;
        let ours = self.count.compare_exchange(mine, mine + 1, order, order);
        mine != 0 && ours.is_ok()
    }

    /// No call is taken any more. Waits for the calls that somebody is at; one who waits at the
    /// listener is left there.
    pub(super) fn finish(&self) {
        let mut seat = lock(&self.seat);
        seat.over = true;
        self.news.notify_all();
        while self.at_work.load(Ordering::SeqCst) > 0 {
            seat = wait_for(&self.news, seat, limits::BROKER_PATIENCE).0;
        }
    }
}

fn wait<'a>(news: &Condvar, seat: MutexGuard<'a, Seat>) -> MutexGuard<'a, Seat> {
    news.wait(seat).unwrap_or_else(PoisonError::into_inner)
}

/// Also says whether nothing came in all that time.
fn wait_for<'a>(
    news: &Condvar,
    seat: MutexGuard<'a, Seat>,
    time: Duration,
) -> (MutexGuard<'a, Seat>, bool) {
    let waited = news.wait_timeout(seat, time);
    let (seat, ended) = waited.unwrap_or_else(PoisonError::into_inner);
    (seat, ended.timed_out())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::mpsc::{Sender, channel};

    /// A worker that takes the place, says so, and begins a call that lasts until it is told.
    fn worker(
        turn: &Arc<Turn>,
        said: &Sender<&'static str>,
        name: &'static str,
    ) -> (Sender<()>, std::thread::JoinHandle<bool>) {
        let (turn, said) = (Arc::clone(turn), said.clone());
        let (go, told) = channel();
        let life = std::thread::spawn(move || {
            if !turn.take() {
                return false;
            }
            turn.begin();
            said.send(name).unwrap();
            let _ = told.recv();
            let kept = turn.end();
            if kept {
                turn.leave();
            }
            kept
        });
        (go, life)
    }

    #[test]
    fn one_that_takes_long_is_replaced_and_knows_it() {
        let (said, heard) = channel();
        let turn = Arc::new(Turn::default());
        let (end_first, first) = worker(&turn, &said, "first");
        assert_eq!(heard.recv().unwrap(), "first");
        let (end_second, second) = worker(&turn, &said, "second");
        assert_eq!(
            heard.recv().unwrap(),
            "second",
            "while the first is at its call"
        );
        end_first.send(()).unwrap();
        assert!(!first.join().unwrap(), "it has lost the place");
        let (_never, third) = worker(&turn, &said, "third");
        assert_eq!(heard.recv().unwrap(), "third");
        end_second.send(()).unwrap();
        assert!(!second.join().unwrap());
        drop(_never);
        assert!(third.join().unwrap(), "nobody waited: it kept it");
        turn.finish();
    }

    #[test]
    fn one_that_steps_aside_is_replaced_at_once() {
        let turn = Turn::default();
        assert!(turn.take());
        turn.begin();
        turn.step_aside();
        turn.step_aside();
        assert!(!turn.end(), "it has given the place away");
        assert!(turn.take(), "the place is free");
        turn.begin();
        assert!(turn.end());
        turn.leave();
        turn.finish();
        assert!(!turn.take(), "nothing begins after the end");
    }

    #[test]
    fn the_end_waits_for_calls_and_not_for_who_waits_at_the_listener() {
        let (said, heard) = channel();
        let turn = Arc::new(Turn::default());
        let (end, at_call) = worker(&turn, &said, "at a call");
        heard.recv().unwrap();
        let finished = {
            let turn = Arc::clone(&turn);
            std::thread::spawn(move || turn.finish())
        };
        end.send(()).unwrap();
        finished.join().unwrap();
        assert_eq!(turn.at_work.load(Ordering::SeqCst), 0);
        at_call.join().unwrap();
        // One that never comes back from the listener.
        let turn = Turn::default();
        assert!(turn.take());
        turn.finish();
    }
}
