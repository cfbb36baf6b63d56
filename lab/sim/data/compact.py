#!/usr/bin/env python3
"""Makes gcp.csv and seattle.bin from the published measurements; README.md here names them.

    compact.py FOLDER      with gcp/*.dat and the unpacked Seattle/SeattleData_1 to _688
"""

import random
import struct
import sys
from pathlib import Path

REGIONS = [
    "asia-northeast1", "asia-east2", "asia-southeast1", "europe-west3", "southamerica-east1",
    "asia-south1", "australia-southeast1", "us-west2",
]
NODES, SLICES, DRAWS = 99, 688, 25


def gcp(folder):
    lines = ["source,destination,rtt_min_ms,rtt_avg_ms,rtt_max_ms,rtt_mdev_ms"]
    for source in REGIONS:
        rows = {}
        for line in (folder / f"{source}.dat").read_text().split():
            figures, region = line.split(":")
            rows[region] = figures.replace("/", ",")
        lines += [f"{source},{other},{rows[other]}" for other in REGIONS if other != source]
    Path("gcp.csv").write_text("\n".join(lines) + "\n")


def links(sender, receiver, relays):
    """Pairs in the order in which core/route numbers the links of a session."""
    pairs = [(sender, receiver)]
    pairs += [(sender, relay) for relay in relays]
    pairs += [(relay, receiver) for relay in relays]
    return pairs + [(a, b) for a in relays for b in relays if a != b]


def seattle(folder):
    slices = []
    for number in range(1, SLICES + 1):
        rows = (folder / f"SeattleData_{number}").read_text().splitlines()
        slices.append([[round(float(value) * 100) for value in row.split()] for row in rows])
    chance = random.Random(2020)
    out = bytearray()
    for _ in range(DRAWS):
        sender, receiver, *relays = chance.sample(range(NODES), 6)
        for a, b in links(sender, receiver, relays):
            runs = []
            for values in slices:
                value = values[a][b]
                if runs and runs[-1][0] == value and runs[-1][1] < 255:
                    runs[-1][1] += 1
                else:
                    runs.append([value, 1])
            out += struct.pack("<H", len(runs))
            for value, count in runs:
                out += struct.pack("<HB", value, count)
    Path("seattle.bin").write_bytes(out)


if __name__ == "__main__":
    gcp(Path(sys.argv[1]) / "gcp")
    seattle(Path(sys.argv[1]) / "Seattle")
