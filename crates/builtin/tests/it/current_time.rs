//! The time, told once a turn.

use jiff::tz::TimeZone;
use turnwright_builtin::CurrentTime;
use turnwright_testkit::Reply;

use crate::support::{agent, reminders};

#[tokio::test(start_paused = true)]
async fn the_model_is_told_the_time_once_a_turn() {
    let hook = CurrentTime::in_zone(TimeZone::get("Europe/Berlin").unwrap());
    let replies = [Reply::new().text("a").finish(), Reply::new().text("b").finish()];
    let session = agent(replies).hook(hook).build().unwrap().new_session();
    for _ in 0..2 {
        session.start("hi").unwrap().result().await.unwrap();
    }
    let told = reminders(&session);
    assert_eq!(told.len(), 2);
    assert!(told[0].contains("(Europe/Berlin), "), "{}", told[0]);
    assert!(told[0].starts_with("<system-reminder>\nIt is 20"), "{}", told[0]);
    let line = told[0].lines().nth(1).unwrap();
    let (time, weekday) = line.trim_start_matches("It is ").split_once(" (Europe/Berlin), ").unwrap();
    let time: jiff::civil::DateTime = time.parse().unwrap();
    assert_eq!((format!("{}.", time.strftime("%A")), time.subsec_nanosecond()), (weekday.to_owned(), 0));
}
