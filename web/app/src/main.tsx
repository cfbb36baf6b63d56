import { createRoot } from "react-dom/client";
import { App } from "./App";
import { speak } from "./i18n";
import { here } from "./route";
import { load } from "./settings";
import "./styles.css";
import { Guard } from "./ui/Guard";

const root = document.getElementById("root");
if (root) {
  const settings = load();
  const link = here();
  // A link to the same meeting with another token is another link.
  addEventListener("hashchange", () => location.reload());
  const page = <Guard><App kept={settings} link={link} /></Guard>;
  void speak(settings.language).then(() => createRoot(root).render(page));
}
