"""Two callers, one question, different hits.

Prints:
    ['group:staff'] ['Notice periods', 'Working here']
    ['group:staff', 'group:hr'] ['Exceptions to notice periods', 'Notice periods', 'Working here']
"""

from context_engine import PUBLIC, Document, Engine

documents = [
    Document(name="Working here", text="Why people like our company.", acl=PUBLIC),
    Document(name="Notice periods", text="All staff: one month.", acl=["group:staff"]),
    Document(name="Exceptions to notice periods", text="Laser: six.", acl=["group:hr"]),
]
with Engine() as engine:
    engine.ingest(documents)
    for caller in (["group:staff"], ["group:staff", "group:hr"]):
        result = engine.search("notice period exceptions", principals=caller)
        print(caller, [hit.document.name for hit in result.hits])
