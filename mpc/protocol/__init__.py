"""What the author of a protocol needs: `@protocol` with cost and evidence, the catalogue, rehearsals and plans."""
