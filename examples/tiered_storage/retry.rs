//! What is done about an event that was begun and not acknowledged.

use anyhow::ensure;
use tidelog::remote_log::{
    Event, RemoteLogMetadataManager, RemoteLogSegmentId, RemoteLogSegmentState, RemoteStorageError,
};

use crate::journal;
use crate::model::Model;
use crate::report::Tally;

/// Records an event of which nobody knows whether it was. Either way it is recorded once then.
pub(crate) fn retry(
    manager: &dyn RemoteLogMetadataManager,
    model: &mut Model,
    event: &Event,
    tally: &mut Tally,
) -> anyhow::Result<()> {
    use RemoteLogSegmentState::DeleteSegmentFinished;
    let recorded = is_recorded(manager, event)?;
    match recorded {
        Some(true) => tally.found += 1,
        Some(false) => tally.missing += 1,
        None => {}
    }
    let outcome = journal::record(manager, event.clone());
    let recorded = recorded == Some(true);
    let fits = match (event, &outcome) {
        (Event::DeletePartition(_), Ok(())) => model.accepts(event),
        (
            Event::DeletePartition(_),
            Err(RemoteStorageError::InvalidPartitionDeleteTransition { from, .. }),
        ) => !model.accepts(event) && *from == model.deletion(),
        (Event::AddSegment(_), Err(RemoteStorageError::InvalidAdd { .. })) => recorded,
        (Event::AddSegment(_), Ok(())) => !recorded,
        (Event::UpdateSegment(update), Err(RemoteStorageError::SegmentNotFound(_))) => {
            recorded && update.state == DeleteSegmentFinished
        }
        (Event::UpdateSegment(update), Ok(())) => !recorded || update.state != DeleteSegmentFinished,
        _ => false,
    };
    ensure!(fits, "recorded: {recorded}, and the retry gives {outcome:?}: {event:?}");
    if model.accepts(event) { model.apply(event) } else { Ok(()) }
}

/// Whether an event is there; `None`: nothing tells.
fn is_recorded(manager: &dyn RemoteLogMetadataManager, event: &Event) -> anyhow::Result<Option<bool>> {
    let find = |id: &RemoteLogSegmentId| {
        let listed = manager.list_remote_log_segments(&id.topic_id_partition)?.into_iter();
        anyhow::Ok(listed.into_iter().find(|segment| segment.remote_log_segment_id() == id))
    };
    Ok(match event {
        Event::AddSegment(segment) => Some(find(segment.remote_log_segment_id())?.is_some()),
        Event::UpdateSegment(update) => Some(match find(&update.remote_log_segment_id)? {
            None => update.state == RemoteLogSegmentState::DeleteSegmentFinished,
            Some(segment) => {
                (update.state, update.event_timestamp_ms, update.broker_id)
                    == (segment.state(), segment.event_timestamp_ms(), segment.broker_id())
            }
        }),
        Event::DeletePartition(_) => None,
    })
}
