//! The queue within one process does what every work queue has to do.

use prodigy_engine::queue::LocalQueue;
use prodigy_testkit::queue_conformance::check_queue_conformance;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_local_queue_does_what_every_queue_has_to_do() {
    check_queue_conformance(LocalQueue::default).await;
}

#[tokio::test]
async fn the_local_queue_does_so_on_one_thread_too() {
    check_queue_conformance(LocalQueue::default).await;
}
