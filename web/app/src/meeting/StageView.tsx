/** All pictures: as a grid, or one large and the others beside it. */

import { useEffect, useRef, useState } from "react";
import { useTranslation } from "react-i18next";
import { TileView, type TileProps } from "./TileView";
import { GAP, grid, type Stage, type Tile } from "./view";

export interface StageProps extends Pick<TileProps, "view" | "meeting"> {
  stage: Stage;
  pinned: string | undefined;
  pin(key: string | undefined): void;
  /** What is shown instead of a large picture. */
  board: React.ReactNode;
}

export function StageView(props: StageProps) {
  const { t } = useTranslation();
  const { stage, pinned, pin, view, meeting, board } = props;
  const show = (tile: Tile, small = false) => (
    <TileView
      key={tile.key} tile={tile} view={view} meeting={meeting} small={small}
      pinned={pinned === tile.key} pin={() => pin(pinned === tile.key ? undefined : tile.key)}
    />
  );
  const tiles = board && stage.large ? [stage.large, ...stage.tiles] : stage.tiles;
  if (!stage.large && !board) return <Grid tiles={stage.tiles} show={show} />;
  return (
    <div className="flex size-full min-h-0 flex-col gap-3 lg:flex-row">
      <div className="min-h-0 min-w-0 flex-1">{board || (stage.large && show(stage.large))}</div>
      {tiles.length > 0 && (
        <div className="flex shrink-0 gap-3 overflow-auto p-0.5 lg:w-56 lg:flex-col" tabIndex={0}
          role="group" aria-label={t("stage.others")}>
          {tiles.map((tile) => (
            <div key={tile.key} className="aspect-video w-40 shrink-0 lg:w-full">{show(tile, true)}</div>
          ))}
        </div>
      )}
    </div>
  );
}

function Grid({ tiles, show }: { tiles: Tile[]; show(tile: Tile): React.ReactNode }) {
  const box = useRef<HTMLDivElement>(null);
  const [size, setSize] = useState({ width: 1, height: 1 });
  useEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const fit = () => setSize({ width: element.clientWidth, height: element.clientHeight });
    const observer = new ResizeObserver(fit);
    observer.observe(element);
    fit();
    return () => observer.disconnect();
  }, []);
  const { across, wide, tall } = grid(tiles.length, size.width, size.height);
  return (
    <div ref={box} className="flex size-full min-h-0 items-center justify-center p-0.5">
      <div
        className="flex shrink-0 flex-wrap justify-center"
        style={{ gap: `${GAP}px`, width: `${across * (wide + GAP)}px` }}
      >
        {tiles.map((tile) => (
          <div key={tile.key} style={{ width: `${wide}px`, height: `${tall}px` }}>{show(tile)}</div>
        ))}
      </div>
    </div>
  );
}
