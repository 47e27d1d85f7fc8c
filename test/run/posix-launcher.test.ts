import { conformance } from "./launcher.conformance.ts";

conformance("posix", { skip: [] });
