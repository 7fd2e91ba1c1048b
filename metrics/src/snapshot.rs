//! A process's figures as plain data, and reading them from outside.

use crate::labels::{OTHER, Process};
use crate::limits::{CALL_SECONDS, MAX_LABEL_BYTES, MAX_SAMPLES, MAX_VALUE};
use crate::table::{Kind, Merge, Spec, find};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// All figures of one process at one moment, to be carried to another process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Format, [`crate::limits::SNAPSHOT_FORMAT`].
    pub format: u32,
    /// The kind of process.
    pub process: Process,
    /// Different for every start of a process: tells a restarted one from the same one.
    pub instance: String,
    /// Grows with every snapshot of an instance, so that an older one that comes late is left out.
    pub sequence: u64,
    /// The figures.
    pub samples: Vec<Sample>,
}

/// One figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Name of the metric.
    pub name: String,
    /// Labels with their values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The value.
    pub value: Value,
}

/// The value of a figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    /// Of a counter or gauge.
    Number(f64),
    /// Of a histogram.
    Histogram(Histogram),
}

/// The state of a histogram.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Histogram {
    /// Upper bounds, ascending, without infinity.
    pub bounds: Vec<f64>,
    /// For each bound the number of observations at or below it.
    pub cumulative: Vec<u64>,
    /// Number of all observations.
    pub count: u64,
    /// Sum of all observations.
    pub sum: f64,
}

impl Value {
    /// Whether it can be a value of this metric: of its type, finite, not negative and consistent.
    fn fits(&self, spec: &Spec) -> bool {
        match (self, spec.kind) {
            (Value::Number(number), Kind::Counter | Kind::Gauge) => in_range(*number),
            (Value::Histogram(histogram), Kind::Histogram) => histogram.is_sound(),
            _ => false,
        }
    }

    /// Joins `other` to this value.
    fn join(&mut self, other: &Value, rule: Merge) {
        match (self, other) {
            (Value::Number(mine), Value::Number(theirs)) => match rule {
                Merge::Sum => *mine += theirs,
                Merge::Max | Merge::Age => *mine = mine.max(*theirs),
            },
            (Value::Histogram(mine), Value::Histogram(theirs)) => mine.add(theirs),
            // Values are checked against the table before, so the types of two samples agree.
            _ => {}
        }
    }
}

impl Histogram {
    fn is_sound(&self) -> bool {
        let ascending = self.cumulative.windows(2).all(|pair| pair[0] <= pair[1]);
        self.bounds == CALL_SECONDS
            && self.cumulative.len() == self.bounds.len()
            && ascending
            && self
                .cumulative
                .last()
                .is_none_or(|last| *last <= self.count)
            && (self.count as f64) <= MAX_VALUE
            && in_range(self.sum)
    }

    fn add(&mut self, other: &Histogram) {
        for (mine, theirs) in self.cumulative.iter_mut().zip(&other.cumulative) {
            *mine = mine.saturating_add(*theirs);
        }
        self.count = self.count.saturating_add(other.count);
        self.sum += other.sum;
    }
}

fn in_range(number: f64) -> bool {
    (0.0..=MAX_VALUE).contains(&number)
}

/// Values of a metric's labels, in the table's order.
pub(crate) type Key = Vec<String>;

/// Figures that agree with the table.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Families(BTreeMap<&'static str, BTreeMap<Key, Value>>);

impl Families {
    /// What of a snapshot agrees with the table, and how many samples do not.
    pub(crate) fn accept(snapshot: &Snapshot) -> (Families, usize) {
        let mut families = Families::default();
        let mut accepted = 0;
        for sample in snapshot.samples.iter().take(MAX_SAMPLES) {
            let Some(spec) = find(&sample.name) else {
                continue;
            };
            if !spec.from.contains(&snapshot.process) || !sample.value.fits(spec) {
                continue;
            }
            if let Some(key) = key_of(spec, &sample.labels) {
                // Two codes that are both unknown here become one `other`, so even one sender's samples may meet.
                families.join(spec, key, &sample.value);
                accepted += 1;
            }
        }
        (families, snapshot.samples.len() - accepted)
    }

    /// Joins one figure to these by the metric's rule.
    pub(crate) fn join(&mut self, spec: &Spec, key: Key, value: &Value) {
        let family = self.0.entry(spec.name).or_default();
        match family.get_mut(&key) {
            Some(mine) => mine.join(value, spec.merge),
            None => {
                family.insert(key, value.clone());
            }
        }
    }

    /// Joins all figures of `other`, taken `age_s` seconds ago.
    pub(crate) fn join_all(&mut self, other: &Families, age_s: f64) {
        for (spec, key, value) in other.iter() {
            match (value, spec.merge) {
                (Value::Number(number), Merge::Age) => {
                    self.join(spec, key.clone(), &Value::Number(number + age_s));
                }
                _ => self.join(spec, key.clone(), value),
            }
        }
    }

    /// Joins what outlives the process that counted it: counters and histograms.
    pub(crate) fn join_counted(&mut self, other: &Families) {
        for (spec, key, value) in other.iter() {
            if spec.kind != Kind::Gauge {
                self.join(spec, key.clone(), value);
            }
        }
    }

    /// The figures of one metric.
    pub(crate) fn of(&self, spec: &Spec) -> impl Iterator<Item = (&Key, &Value)> {
        self.0.get(spec.name).into_iter().flatten()
    }

    /// The figures as samples.
    pub(crate) fn samples(&self) -> Vec<Sample> {
        self.iter()
            .map(|(spec, key, value)| Sample {
                name: spec.name.to_owned(),
                labels: spec
                    .labels
                    .iter()
                    .map(|label| label.name.to_owned())
                    .zip(key.iter().cloned())
                    .collect(),
                value: value.clone(),
            })
            .collect()
    }

    fn iter(&self) -> impl Iterator<Item = (&'static Spec, &Key, &Value)> {
        self.0.iter().flat_map(|(name, family)| {
            find(name)
                .into_iter()
                .flat_map(move |spec| family.iter().map(move |(key, value)| (spec, key, value)))
        })
    }
}

/// The labels' values in the table's order; none where a label is missing, too many are there, or a value is not one of its label's.
fn key_of(spec: &Spec, labels: &BTreeMap<String, String>) -> Option<Key> {
    if labels.len() != spec.labels.len() {
        return None;
    }
    spec.labels
        .iter()
        .map(|label| {
            let value = labels.get(label.name)?;
            match label.values {
                None => (value.len() <= MAX_LABEL_BYTES).then(|| value.clone()),
                Some(set) if set.contains(&value.as_str()) => Some(value.clone()),
                Some(set) => set.contains(&OTHER).then(|| OTHER.to_owned()),
            }
        })
        .collect()
}
