//! Simulcast: each layer a stream of its own, each player one clean stream.

use crate::peer::{Kind, Peer};
use crate::stage::{Stage, until};

/// Bytes of a picture in each layer.
const SIZES: [usize; 3] = [200, 600, 1_100];

/// Shows the same picture in all layers.
fn show(publisher: &mut Peer, key: bool) {
    for (layer, size) in SIZES.into_iter().enumerate() {
        publisher.show_layer(Some(layer), key, size);
    }
}

#[test]
fn each_layer_is_a_subtopic() {
    let stage = Stage::new();
    let mut publisher = Peer::new(Kind::SendsLayers(3));
    stage.publish(&mut publisher, "demo/anna");
    until("all are there", || stage.broker.streams().len() == 4);
    let mut names: Vec<_> = stage
        .broker
        .streams()
        .iter()
        .map(|one| one.topic.to_string())
        .collect();
    names.sort();
    let expected = ["audio", "video/0", "video/1", "video/2"];
    assert_eq!(names, expected.map(|name| format!("demo/anna/{name}")));
}

#[test]
fn a_player_begins_with_the_lowest_layer() {
    let stage = Stage::new();
    let mut publisher = Peer::new(Kind::SendsLayers(3));
    let mut player = Peer::new(Kind::Receives);
    stage.publish(&mut publisher, "demo/anna");
    stage.play(&mut player, "demo/anna");
    let some = |player: &Peer| player.pictures().len() >= 5;
    player.until_with("pictures", some, || show(&mut publisher, true));
    assert_eq!(player.pictures()[0].payload.len(), SIZES[0]);
}
