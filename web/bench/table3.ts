/** Wu, Fox, Bulut, Uyar, Huang: Service Oriented Architecture for VoIP conferencing, Table 3. */

import type { Row } from "./report";

/** Percent of a processor, from and to, for 1 to 8 streams. */
const CLIENTS: Record<string, readonly (readonly [from: number, to: number])[]> = {
  "VIC": [[8, 9], [13, 14], [17, 18], [23, 24], [26, 27], [32, 33], [35, 36], [40, 41]],
  "Sun JMF client": [[15, 16], [24, 25], [33, 34], [40, 41], [46, 47], [51, 52], [58, 59], [62, 63]],
  "Fast JMF client": [[6, 7], [9, 10], [15, 16], [17, 18], [23, 24], [27, 28], [31, 32], [34, 35]],
};

export const TABLE_3: readonly Row[] = Object.entries(CLIENTS).flatMap(([client, all]) =>
  all.map(([from, to], n) => ({
    client, streams: n + 1, cpu_from_percent: from, cpu_to_percent: to, source: "Wu et al., Table 3",
  })));
