//! The page for Prometheus.

use crate::snapshot::{Families, Key, Value};
use crate::table::{Kind, Spec, TABLE};
use prometheus::TextEncoder;
use prometheus::proto;
use std::fmt::Write as _;

/// Media type of the page.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The figures as Prometheus text, in the table's order.
pub(crate) fn text(families: &Families) -> String {
    let encoder = TextEncoder::new();
    let mut page = String::new();
    for spec in TABLE {
        let metrics: Vec<_> = families
            .of(spec)
            .map(|(key, value)| metric(spec, key, value))
            .collect();
        if metrics.is_empty() {
            continue;
        }
        let mut family = proto::MetricFamily::default();
        family.set_name(spec.name.to_owned());
        family.set_help(spec.help.to_owned());
        family.set_field_type(match spec.kind {
            Kind::Counter => proto::MetricType::COUNTER,
            Kind::Gauge => proto::MetricType::GAUGE,
            Kind::Histogram => proto::MetricType::HISTOGRAM,
        });
        family.set_metric(metrics);
        if let Err(error) = encoder.encode_utf8(&[family], &mut page) {
            // One family that cannot be written must not hide the others from the monitor.
            let _ = writeln!(page, "# {} is left out: {error}", spec.name);
        }
    }
    page
}

fn metric(spec: &Spec, key: &Key, value: &Value) -> proto::Metric {
    let pairs = spec.labels.iter().zip(key).map(|(label, text)| {
        let mut pair = proto::LabelPair::default();
        pair.set_name(label.name.to_owned());
        pair.set_value(text.clone());
        pair
    });
    let mut metric = proto::Metric::from_label(pairs.collect());
    match (value, spec.kind) {
        (Value::Number(number), Kind::Counter) => {
            let mut counter = proto::Counter::default();
            counter.set_value(*number);
            metric.set_counter(counter);
        }
        (Value::Number(number), _) => {
            let mut gauge = proto::Gauge::default();
            gauge.set_value(*number);
            metric.set_gauge(gauge);
        }
        (Value::Histogram(value), _) => metric.set_histogram(histogram(value)),
    }
    metric
}

fn histogram(value: &crate::snapshot::Histogram) -> proto::Histogram {
    let buckets = value.bounds.iter().zip(&value.cumulative);
    let mut histogram = proto::Histogram::default();
    histogram.set_bucket(
        buckets
            .map(|(bound, count)| {
                let mut bucket = proto::Bucket::default();
                bucket.set_upper_bound(*bound);
                bucket.set_cumulative_count(*count);
                bucket
            })
            .collect(),
    );
    histogram.set_sample_count(value.count);
    histogram.set_sample_sum(value.sum);
    histogram
}
