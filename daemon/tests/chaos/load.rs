//! Calls all the time, several at once, and the judgement of what became of each.

use super::random::Random;
use hands_testkit::{Answers, Command, ControlPlane};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The time that the planner gives a call, but for those that cannot make it.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);
/// The time that it gives those.
const HASTE: Duration = Duration::from_millis(200);
/// Planners at once, each with one call under way.
const PLANNERS: u64 = 6;
/// A call that waits for a tunnel is waited for this long, at least.
const PATIENCE: Duration = Duration::from_secs(120);

/// What is asked for, and what a good answer shows.
#[derive(Debug, Clone)]
enum Wish {
    /// A command that outlasts its time: its id comes again while it is at work.
    Nothing,
    /// This word on standard output.
    Bash(String),
    /// This content.
    Read(String),
    /// This file with this content.
    Write(PathBuf, String),
}

/// A call that was made.
#[derive(Debug, Clone)]
pub(crate) struct Made {
    request_id: String,
    id: Value,
    wish: Wish,
    /// The time that the planner gives it.
    deadline: Duration,
}

impl Made {
    /// Answered for good, past its deadline, or disowned by the service.
    fn is_over(&self, answers: &Answers) -> bool {
        let patience = self.deadline + Duration::from_secs(1);
        let is_late = |at: &Instant| at.elapsed() > patience;
        answers.last().is_some()
            || answers.delivered.last().is_some_and(is_late)
            || is_disowned(answers)
    }

    /// Whether it takes longer than it may.
    fn is_hopeless(&self) -> bool {
        self.deadline < DEADLINE
    }
}

/// How the calls ended.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) good: usize,
    pub(crate) failed: usize,
    /// Past their deadline, with the death of a process or the service's own word to explain it.
    pub(crate) expired: usize,
    /// Past a deadline that was too short.
    pub(crate) hopeless: usize,
}

pub(crate) struct Load {
    plane: Arc<ControlPlane>,
    folder: PathBuf,
    made: Mutex<Vec<Made>>,
    stop: AtomicBool,
}

impl Load {
    pub(crate) fn new(plane: Arc<ControlPlane>, folder: PathBuf) -> Arc<Load> {
        Arc::new(Load {
            plane,
            folder,
            made: Mutex::default(),
            stop: AtomicBool::new(false),
        })
    }

    pub(crate) fn start(self: &Arc<Self>, seed: u64) -> Vec<tokio::task::JoinHandle<()>> {
        let planner = |number| {
            let load = Arc::clone(self);
            tokio::spawn(async move { load.plan(number, Random::new(seed + 1 + number)).await })
        };
        (0..PLANNERS).map(planner).collect()
    }

    /// No further calls; those under way are waited for by their planners.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    async fn plan(&self, planner: u64, mut random: Random) {
        for serial in 0.. {
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            let word = format!("w{planner}-{serial}");
            let (wish, tool, arguments) = self.wish(&word, planner, &mut random);
            // Ids as clients choose them: the same few in every planner, again and again.
            let id = json!(serial % 3);
            let params = json!({"name": tool, "arguments": arguments});
            let message =
                json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
            let deadline = match &wish {
                Wish::Nothing => HASTE,
                _ => DEADLINE,
            };
            let timeout = format!("{}ms", deadline.as_millis());
            let command = Command::jsonrpc(message).timeout(timeout.as_str());
            let made = Made {
                request_id: self.plane.push(command),
                id,
                wish,
                deadline,
            };
            self.made.lock().unwrap().push(made.clone());
            let what = format!("the end of {made:?}");
            let ended = |plane: &ControlPlane| {
                let answers = plane.answers(&made.request_id);
                made.is_over(&answers).then_some(())
            };
            self.plane.wait_for(&what, PATIENCE, ended).await;
            tokio::time::sleep(Duration::from_millis(random.between(5, 60))).await;
        }
    }

    fn wish(&self, word: &str, planner: u64, random: &mut Random) -> (Wish, &'static str, Value) {
        let file = self.folder.join(format!("{word}.txt"));
        match planner % 3 {
            0 if random.chance(10) => {
                let args = json!({"command": "sleep 1; echo late"});
                (Wish::Nothing, "bash", args)
            }
            0 => {
                // Some are under way for long, so that each fault finds one.
                let pause = *random.pick(&["0", "0.1", "0.5", "2"]);
                let command = format!("sleep {pause}; echo {word}");
                let wish = Wish::Bash(format!("{word}\n"));
                (wish, "bash", json!({"command": command}))
            }
            1 => {
                let content = format!("{word}\n");
                std::fs::write(&file, &content).unwrap();
                (Wish::Read(content), "read_file", json!({"path": file}))
            }
            _ => {
                let content = format!("{word}\n").repeat(random.between(1, 2000) as usize);
                let args = json!({"path": file, "content": content});
                (Wish::Write(file, content), "write_file", args)
            }
        }
    }

    /// Checks each call; `lost` tells whether one that was handed out then may have been lost with a process.
    pub(crate) fn judge(&self, lost: impl Fn(Instant) -> bool) -> Tally {
        let mut tally = Tally::default();
        for made in self.made.lock().unwrap().iter() {
            let answers = self.plane.answers(&made.request_id);
            check_posts(made, &answers);
            let Some(last) = answers.last() else {
                let delivered = *answers.delivered.last().unwrap();
                assert!(
                    made.is_hopeless() || lost(delivered) || is_disowned(&answers),
                    "{made:?} was never answered: {answers:?}"
                );
                match made.is_hopeless() {
                    true => tally.hopeless += 1,
                    false => tally.expired += 1,
                }
                continue;
            };
            match check_answer(made, last.json()) {
                true => tally.good += 1,
                false => tally.failed += 1,
            }
            if let Wish::Write(file, content) = &made.wish {
                check_file(file, content);
            }
        }
        tally
    }
}

/// The service said that it knows of no such call: nobody waits for the answer.
fn is_disowned(answers: &Answers) -> bool {
    answers.last().is_none() && answers.posts.iter().any(|post| post.status == Some(404))
}

/// One final answer was taken, whatever was sent again.
fn check_posts(made: &Made, answers: &Answers) {
    let finals = answers.posts.iter().filter(|post| post.is_final());
    let taken = finals.clone().filter(|post| post.accepted).count();
    assert!(taken <= 1, "{made:?} was answered {taken} times");
    for post in finals {
        assert_eq!(post.json()["id"], made.id, "{made:?}: {post:?}");
    }
}

/// Whether the answer is the wish fulfilled; if not it must be an error that says so.
fn check_answer(made: &Made, answer: &Value) -> bool {
    let result = &answer["result"];
    if result.is_null() {
        let message = answer["error"]["message"].as_str();
        assert!(message.is_some_and(|text| text.len() > 20), "{answer}");
        return false;
    }
    let data = &result["structuredContent"];
    if data["ok"] != true {
        // The server was told to end while it was at work.
        assert_eq!(data["code"], "cancelled", "{made:?}: {answer}");
        return false;
    }
    match &made.wish {
        Wish::Nothing => panic!("{made:?} was answered after its time: {answer}"),
        Wish::Bash(word) => assert_eq!(data["stdout"], word.as_str(), "{made:?}"),
        Wish::Read(content) => {
            let text = result["content"][0]["text"].as_str().unwrap();
            assert_eq!(text, content, "{made:?}");
        }
        Wish::Write(file, content) => {
            assert_eq!(std::fs::read_to_string(file).unwrap(), *content, "{made:?}");
        }
    }
    true
}

/// Whole or not there at all.
fn check_file(file: &Path, content: &str) {
    if let Ok(found) = std::fs::read_to_string(file) {
        assert_eq!(found, content, "{} is torn", file.display());
    }
}
