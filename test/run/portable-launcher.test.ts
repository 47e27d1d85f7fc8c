import { conformance } from "./launcher.conformance.ts";

conformance("portable", {
  skip: [
    { rule: "a signal that the caller ignores stays ignored", reason: "the runtime sets the default action" },
    { rule: "descriptors from 3 up are handed on", reason: "the runtime closes them" },
    { rule: "an argument that is no UTF-8 arrives byte for byte", reason: "the runtime takes text" },
    { rule: "a variable that is set to what is no UTF-8 arrives byte for byte", reason: "the runtime takes text" },
    { rule: "a descriptor that the caller has closed is closed in the child", reason: "the runtime opens /dev/null" },
    { rule: "stdout and stderr are pipes that the child can open by name", reason: "the runtime makes sockets" },
    { rule: "the soft limit of open files is the caller's", reason: "the runtime raises it" },
  ],
});
