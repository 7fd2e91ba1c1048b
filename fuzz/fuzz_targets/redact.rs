//! Redaction: any text, and any JSON.
#![no_main]

use hands_policy::redact::Redactor;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let redactor = Redactor::shared();
    let text = String::from_utf8_lossy(data);
    let once = redactor.text(&text);
    assert_eq!(redactor.text(&once), once, "redacting twice changes more");
    if let Ok(value) = serde_json::from_slice(data) {
        let once = redactor.value(&value);
        assert_eq!(redactor.value(&once), once, "redacting twice changes more");
    }
});
