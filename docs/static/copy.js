/* A button on each block of code copies it. For a command with its output, it copies the command alone. */
const COMMAND = /^\$ ((?:.*\\\n)*.*)/;
for (const block of document.querySelectorAll("div.highlight > pre")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = "copy";
  button.addEventListener("click", async () => {
    const text = block.textContent;
    await navigator.clipboard.writeText(COMMAND.exec(text)?.[1] ?? text);
    button.textContent = "copied";
    setTimeout(() => (button.textContent = "copy"), 1500);
  });
  block.parentElement.append(button);
}
