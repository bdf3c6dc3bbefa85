"use strict";
/* The colors follow the system until the reader chooses light or dark. */
const themeListeners = [];
{
  const THEMES = ["system", "light", "dark"], button = document.getElementById("theme");
  const asTheSystem = matchMedia("(prefers-color-scheme: dark)");
  let theme = "system";
  const dress = () => {
    const dark = theme === "dark" || (theme === "system" && asTheSystem.matches);
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    button.textContent = `theme: ${theme}`;
    themeListeners.forEach((listener) => listener());
  };
  const next = () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    dress();
  };
  button.addEventListener("click", next);
  asTheSystem.addEventListener("change", dress);
  dress();
}
