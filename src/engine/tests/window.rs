//! Tests of the window: order, bounds, and when finished rows are written.

use super::harness::*;

/// The simulated time of 2,000 rows of 100 ms, 8 concurrently, of which 1 in 100 backs off four times, 4 s in all.
async fn simulated_time(window: usize) -> Duration {
    let good = ScriptedResult::Verdict.after(100);
    let sick = [ScriptedResult::Status(500).after(100); 4];
    let slow = (50..2_000).step_by(100);
    let service = slow.fold(Scripted::new(good), |service, row| service.row(row, sick));
    let log = Log::default();
    let engine = engine(8, &log, service);
    let mut around = Surroundings::of(batches(asked(2_000, &[]), &[128]));
    around.window.rows = window;
    let ran = run_to_end(&engine, around).await;
    assert!(ran.stop.is_none());
    assert_eq!(ran.rows().len(), 2_000);
    assert_eq!(engine.events().with_counts(Counts::scored), 2_000);
    assert_invariants(&engine);
    ran.elapsed
}

#[tokio::test(start_paused = true)]
async fn a_window_beyond_the_concurrency_hides_back_offs() {
    let (narrow, wide) = (simulated_time(8).await, simulated_time(1_024).await);
    assert!(wide < Duration::from_secs(30), "{wide:?}; at best 26 s");
    assert!(narrow > 2 * wide, "{narrow:?} and {wide:?}");
}

#[tokio::test(start_paused = true)]
async fn one_row_is_tried_until_the_first_verdict() {
    let trouble = [
        ScriptedResult::Status(500).after(1_000),
        ScriptedResult::Status(502).after(1_000),
    ];
    let service = Scripted::new(ScriptedResult::Verdict.after(1_000))
        .row(1, [ScriptedResult::Status(422).after(1_000)])
        .row(2, trouble);
    let log = Log::default();
    let engine = engine(8, &log, service);
    let ran = run_to_end(&engine, Surroundings::of(batches(asked(9, &[]), &[9]))).await;
    assert_eq!(ran.rows(), (1..=9).collect::<Vec<_>>());
    assert_eq!(engine.service().rows(), [1, 2, 2, 2, 3, 4, 5, 6, 7, 8, 9]);
    let calls = engine.service().made();
    for pair in calls[..4].windows(2) {
        assert!(pair[1].began >= pair[0].ended.unwrap(), "{pair:?}");
    }
    let verdict = calls[3].ended.unwrap();
    assert!(calls[4..].iter().all(|call| call.began == verdict));
    assert_eq!(engine.service().most_in_flight(), 7);
}

#[tokio::test(start_paused = true)]
async fn behind_a_slow_row_the_window_keeps_to_its_rows() {
    // The first row is the canary, so the slow one is the second.
    let service = Scripted::new(ScriptedResult::Verdict.after(1))
        .row(2, [ScriptedResult::Verdict.after(60_000)]);
    let log = Log::default();
    let engine = engine(8, &log, service);
    let around = Surroundings::of(batches(asked(10_002, &[]), &[128]));
    let ran = run_to_end(&engine, around).await;
    assert_eq!(ran.rows(), (1..=10_002).collect::<Vec<_>>());
    assert_eq!(most_in_window(&log.events()), 1_024);
    let minute = Duration::from_secs(60);
    let made = engine.service().made();
    let early = made.iter().filter(|made| made.began < minute).count();
    assert_eq!(early, 1_025, "the canary and a window full");
    assert!(ran.elapsed < Duration::from_secs(65), "{:?}", ran.elapsed);
    assert_invariants(&engine);
}

#[tokio::test(start_paused = true)]
async fn while_the_writer_stalls_the_window_keeps_to_its_bytes() {
    let log = Log::default();
    let engine = engine(8, &log, Scripted::new(GOOD));
    let around = Surroundings {
        write_delay: Duration::from_secs(3_600),
        window: WindowSize {
            rows: 1_024,
            bytes: 10 * ROW_BYTES,
        },
        ..Surroundings::of(batches(asked(500, &[]), &[20]))
    };
    run_to_end(&engine, around).await;
    let admitted = log
        .events()
        .iter()
        .take_while(|(_, event)| !matches!(event, Event::RowsWritten { .. }))
        .filter(|(_, event)| matches!(event, Event::RowAdmitted(_)))
        .count();
    // As much as fits into the window is in it, in each slot of the channel and in the writer's hands.
    let most = (1 + BATCHES + 1) * 10;
    assert!(admitted <= most, "{admitted} rows instead of {most}");
    assert_invariants(&engine);
}

#[tokio::test(start_paused = true)]
async fn a_finished_row_is_written_while_the_reader_waits() {
    let log = Log::default();
    let engine = engine(4, &log, Scripted::new(GOOD));
    let mut around = Surroundings::of(batches(asked(2, &[]), &[1]));
    around.read_delay = Duration::from_secs(60);
    let ran = run_to_end(&engine, around).await;
    assert_eq!(ran.hand_overs, [1, 1]);
    let events = log.events();
    let written = |(_, event): &&(Duration, Event)| matches!(event, Event::RowsWritten { .. });
    let first = events.iter().find(written).unwrap().0;
    assert!(first < Duration::from_millis(60_020), "{first:?}");
}

#[tokio::test(start_paused = true)]
async fn blank_lines_after_the_last_row_are_written_unless_the_run_stopped() {
    for (row, trailer) in [
        (GOOD, "\n\n"),
        (ScriptedResult::Status(401).immediately(), ""),
    ] {
        let log = Log::default();
        let engine = engine(4, &log, Scripted::new(row));
        let mut read = batches(asked(3, &[2]), &[3]);
        if let Some(Read::Rows(batch)) = read.first_mut() {
            batch.trailer = Bytes::from_static(b"\n\n");
        }
        let ran = run_to_end(&engine, Surroundings::of(read)).await;
        assert_eq!(ran.trailer, trailer);
        assert_invariants(&engine);
    }
}

#[tokio::test(start_paused = true)]
async fn rows_between_which_others_were_dropped_get_their_own_verdicts_in_order() {
    // Every seventh row is slow, so that verdicts come in any order.
    let slow = (0..=300).step_by(7);
    let service = slow.fold(
        Scripted::new(ScriptedResult::Verdict.after(10)),
        |service, row| service.row(row, [ScriptedResult::Verdict.after(1_000)]),
    );
    let log = Log::default();
    let engine = engine(8, &log, service);
    let mut read = batches(asked(300, &[5]), &[32]);
    let mut number = RowNumber::FIRST;
    let mut numbers = Vec::new();
    for message in &mut read {
        let Read::Rows(batch) = message else {
            continue;
        };
        for (row, skipped) in batch.rows.iter_mut().zip((0..4).cycle()) {
            number = (0..=skipped).fold(number, |number, _| number.next());
            row.number = number;
            numbers.push(number.get());
        }
    }
    let mut around = Surroundings::of(read);
    around.window.rows = 64;
    let ran = run_to_end(&engine, around).await;
    assert_eq!(ran.rows(), numbers);
    assert_eq!(engine.events().with_counts(Counts::scored), 299);
    assert_invariants(&engine);
}

#[tokio::test(start_paused = true)]
async fn an_empty_input_is_a_complete_run() {
    let log = Log::default();
    let engine = engine(4, &log, Scripted::new(GOOD));
    let ran = run_to_end(&engine, Surroundings::of(vec![Read::End(InputEnd::Whole)])).await;
    assert!(ran.stop.is_none() && ran.written.is_empty());
    assert_eq!(engine.events().with_counts(Counts::exit), Exit::Complete);
    assert_invariants(&engine);
}
