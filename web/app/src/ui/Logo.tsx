import icon from "../icon.svg";

export function Logo() {
  return (
    <div className="flex items-center gap-2.5">
      <img src={icon} alt="" className="size-8" />
      <span className="text-lg font-semibold tracking-wide">Sangam</span>
    </div>
  );
}
