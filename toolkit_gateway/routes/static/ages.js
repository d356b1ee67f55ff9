// How long ago something was, in words; the same words as in LiveDweets.

export function ageText(seconds) {
  if (seconds < 1.5) return "just now";
  for (const [name, size] of [["days", 86400], ["h", 3600], ["min", 60]])
    if (seconds >= 2 * size) return `${Math.floor(seconds / size).toLocaleString("en")} ${name} ago`;
  return `${Math.round(seconds)} s ago`;
}
