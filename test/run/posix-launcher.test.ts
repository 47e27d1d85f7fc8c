import { conformance } from "./launcher.conformance.ts";

conformance("posix", {
  skip: [
    {
      rule: "the two signals that the C library keeps for itself have their default action",
      reason: "posix_spawn of glibc ignores SIG32 and SIG33 in the child",
    },
  ],
});
